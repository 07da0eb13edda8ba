"""Claims, each composed of passes and estimators; one a folder."""
