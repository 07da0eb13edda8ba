"""A local, read-only server that lists runs and shows their report pages.

`index` finds runs, `files` says what a page of a run may read, `pages` draws and keeps
pages, `app` answers requests, `guard` refuses what comes from elsewhere, and `server`
listens.
"""
