"""Adapters to the environments and trainers of other projects, one module each, which needs the package it adapts to."""
