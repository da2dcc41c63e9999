"""Tests of service.inference, against oracles straight from the equations."""
