"""How units speak with the world outside."""
