"""The version of the distribution, in one place (PEP 440)."""

__all__ = ("__version__",)

__version__ = "0.1.0"
