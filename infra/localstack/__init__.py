"""`make localstack`: the CDK app on a LocalStack that executes functions, from start to finish."""
