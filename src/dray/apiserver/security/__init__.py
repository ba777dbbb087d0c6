"""Who asks, and what they may do: authentication, authorization, tokens and certificates."""
