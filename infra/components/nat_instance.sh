#!/bin/bash
# Makes a NAT of an instance of Amazon Linux 2023, and keeps it one: crawlfleet-nat.service runs this
# from the first boot on, for ever.
#
# The image has no packet filter. Its installation is repeated until it succeeds, because it fails
# where memory is short (512 MB are, for dnf), while something else cleans dnf's cache, or before the
# way out stands. What is set is then looked at once a minute, so that a reboot, another interface or
# whoever emptied the rules is mended within one.
set -u

SWAP=${SWAP:-/swapfile}
SWAP_MB=1024
LOOK_SECONDS=60
MOST_SECONDS=300

log() { echo "crawlfleet-nat: $*"; }

# Of the route by which the instance itself reaches the internet.
way_out() { ip -4 route show default | awk '{ for (i = 1; i < NF; i++) if ($i == "dev") { print $(i + 1); exit } }'; }

# A swap file that was half written is no swap file: it is made under another name first.
# No fallocate: a file with holes is refused as swap by XFS, which the image has.
swap() {
  swapon --show=NAME --noheadings | grep -qxF "$SWAP" && return 0
  [ -e "$SWAP" ] || {
    rm -f "$SWAP.new"
    (umask 077 && dd if=/dev/zero of="$SWAP.new" bs=1M count="$SWAP_MB" status=none) &&
      mkswap "$SWAP.new" > /dev/null && mv "$SWAP.new" "$SWAP" || return 1
  }
  swapon "$SWAP"
}

# Two packages have the command, and which of them a release has is Amazon's to change.
filter() {
  command -v iptables > /dev/null && return 0
  timeout 600 dnf install -y -q --setopt=install_weak_deps=False iptables-nft ||
    timeout 600 dnf install -y -q --setopt=install_weak_deps=False iptables-services
}

masquerades() { iptables -w 5 -t nat -C POSTROUTING -o "$1" -j MASQUERADE 2> /dev/null; }

right() {
  local device
  device=$(way_out)
  [ -n "$device" ] && [ "$(sysctl -n net.ipv4.ip_forward)" = 1 ] && masquerades "$device"
}

# Whatever of it is missing. Forwarding comes last: nothing leaves under a private address.
mend() {
  local device
  swap || log "no swap file; going on without"
  filter || { log "no packet filter yet"; return 1; }
  device=$(way_out)
  [ -n "$device" ] || { log "no default route yet"; return 1; }
  masquerades "$device" || iptables -w 5 -t nat -A POSTROUTING -o "$device" -j MASQUERADE ||
    { log "the rule is refused"; return 1; }
  sysctl -q -w "net.ipv4.conf.$device.send_redirects=0"
  sysctl -q -w net.ipv4.ip_forward=1
}

wait_seconds=5
while :; do
  if right; then
    wait_seconds=5
    sleep "$LOOK_SECONDS"
  elif mend && right; then
    log "forwards and masquerades on $(way_out)"
  else
    log "not yet; again in $wait_seconds s"
    sleep "$wait_seconds"
    wait_seconds=$((wait_seconds * 2 < MOST_SECONDS ? wait_seconds * 2 : MOST_SECONDS))
  fi
done
