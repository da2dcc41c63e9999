"""Tests of delbo, in the same layout as the packages that they test."""
