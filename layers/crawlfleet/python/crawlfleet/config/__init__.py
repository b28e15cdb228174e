"""The config centre: its documents, their validation, loading and publishing."""
