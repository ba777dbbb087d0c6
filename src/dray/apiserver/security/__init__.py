"""Security: authentication, authorization, tokens and certificates."""
