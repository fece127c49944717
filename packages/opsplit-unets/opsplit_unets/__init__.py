"""The bundled U-Nets of opsplit, which finds them where this package is installed."""

from pathlib import Path

ZOO = Path(__file__).parent / "zoo"
"""Model directories: `ZOO / name / "unet"`."""
