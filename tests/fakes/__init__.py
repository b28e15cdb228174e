"""The twins that ship: every port answered from memory, held to the same contract tests."""
