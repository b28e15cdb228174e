"""Names tests use of money: prices, costs, days, forecasts."""

from crawlfleet.jobs.costs.forecast import KEPT, Known, RunSummary, forecast
from crawlfleet.jobs.costs.mongo import MongoCosts, MongoHistories
from crawlfleet.jobs.costs.prices import cost_of, prices_of
