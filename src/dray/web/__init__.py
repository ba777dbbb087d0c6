"""The dashboard: a web page, and the application behind it that follows a cluster and answers the page's questions.

An ordinary API client: a user sees what the API lets that user read. The command line provides `access` (who may sign
in). The page itself is in `assets`.
"""
