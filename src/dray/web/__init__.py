"""The dashboard: one page in the browser, and the application that keeps its picture of a cluster and answers it.

An API client like any other: what a user sees is what the API lets that user read. Left out: who may sign in and who
answers questions, which the command line injects (`access`), and the page itself (`assets`).
"""
