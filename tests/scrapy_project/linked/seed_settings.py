"""Settings as the source of SPEC.md's E1 writes them, and the line that joins them."""

BOT_NAME = "linked"
SPIDER_MODULES = ["linked.peers"]
TELNETCONSOLE_ENABLED = False

# 使用Redis调度器
SCHEDULER = "scrapy_redis.scheduler.Scheduler"

# 使用Redis去重
DUPEFILTER_CLASS = "scrapy_redis.dupefilter.RFPDupeFilter"

# 允许暂停,redis请求记录不丢失
SCHEDULER_PERSIST = True

# 设置Redis为item pipeline
ITEM_PIPELINES = {
    "scrapy_redis.pipelines.RedisPipeline": 300,
}

# 配置Redis连接
REDIS_HOST = "localhost"
REDIS_PORT = 6379

ADDONS = {"crawlfleet.scrapy.Addon": 100}
