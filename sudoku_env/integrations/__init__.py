"""Adapters to other projects' environments and trainers, one module each; importing one needs the package it adapts to."""
