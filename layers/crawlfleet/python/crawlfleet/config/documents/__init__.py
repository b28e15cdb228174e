"""The documents of the config centre: stage, tenant, biz, rule."""
