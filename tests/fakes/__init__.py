"""In-memory fakes implement the ports; the contract tests hold them to what the real ones do."""
