"""The hypernetwork: frames to codes, codes to operators."""
