"""Adapters to other projects' environments and trainers, one module each; each needs the package it adapts to."""
