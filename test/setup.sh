#!/usr/bin/env bash
# Installs what the tests, the benchmark and the demo need on a Debian machine:
# packages, newer versions of some tools, and a small root directory with systemd. What
# is already installed is kept, so that a second run takes a moment.
#
#   test/setup.sh           everything that the tests need
#   test/setup.sh runtime   what the demo needs: packages and nothing else
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=test/testbed/versions.env
. "$here/testbed/versions.env"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/podstead-test
what=${1:-all}

fail() { echo "setup: $*" >&2; exit 1; }

[ "$(id -u)" = 0 ] || fail "needs root, since it installs packages (run it with sudo)"
command -v go >/dev/null || fail "go is not on the PATH: install Go 1.26 or newer"
command -v apt-get >/dev/null || fail "needs Debian's apt-get: on another system install containerd, runc, the CNI plugins, iptables and busybox by hand"

# packages NAME... installs what is missing.
packages() {
	local missing=() p
	for p in "$@"; do
		[ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$p" 2>/dev/null)" = "ii " ] || missing+=("$p")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	echo "setup: installing ${missing[*]}"
	local log
	log=$(mktemp)
	if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
		tail -n 30 "$log" >&2
		fail "apt-get could not install ${missing[*]} (its log: $log)"
	fi
	rm -f "$log"
}

# newer_containerd builds the containerd that streams container events.
newer_containerd() {
	local dir=$cache/containerd-$CONTAINERD_VERSION p
	for p in containerd containerd-shim-runc-v2; do
		[ -x "$dir/$p" ] && continue
		echo "setup: building $p $CONTAINERD_VERSION"
		mkdir -p "$dir"
		GOBIN=$dir CGO_ENABLED=0 GOFLAGS= go install "github.com/containerd/containerd/v2/cmd/$p@$CONTAINERD_VERSION" ||
			fail "cannot build $p $CONTAINERD_VERSION"
	done
}

# kubectl builds the current version.
kubectl() {
	local out=$cache/kubectl-$KUBECTL_VERSION
	[ -x "$out" ] && return 0
	echo "setup: building kubectl $KUBECTL_VERSION"
	(cd "$here/kubectl" && CGO_ENABLED=0 GOFLAGS= go build -ldflags='-s -w' -o "$out" .) || fail "cannot build kubectl $KUBECTL_VERSION"
}

# api_server builds Kubernetes' own, for the tests of joining a cluster.
api_server() {
	local out=$cache/kube-apiserver-$KUBERNETES_VERSION
	[ -x "$out" ] && return 0
	echo "setup: building kube-apiserver $KUBERNETES_VERSION"
	(cd "$here/apiserver" && CGO_ENABLED=0 GOFLAGS= go build -ldflags='-s -w' -o "$out" .) || fail "cannot build kube-apiserver $KUBERNETES_VERSION"
}

# debian_kubectl unpacks Debian's own, which is years older, without installing it.
debian_kubectl() {
	local out=$cache/kubectl-debian tmp
	[ -x "$out" ] && return 0
	echo "setup: unpacking Debian's kubectl"
	tmp=$(mktemp -d "$cache/kubectl.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	chmod 755 "$tmp"
	(cd "$tmp" && { apt-get download kubernetes-client || { apt-get update && apt-get download kubernetes-client; }; } && dpkg-deb -x kubernetes-client_*.deb root) >"$tmp/log" 2>&1 ||
		{ tail -n 30 "$tmp/log" >&2; fail "cannot download Debian's kubernetes-client"; }
	mv "$tmp/root/usr/bin/kubectl" "$out"
	rm -rf "$tmp"
	trap - EXIT
}

# previous_podstead builds podstead as it was at PREVIOUS_COMMIT, from git's history.
previous_podstead() {
	local out=$cache/podstead-$PREVIOUS_COMMIT tmp
	[ -x "$out" ] && return 0
	echo "setup: building podstead $PREVIOUS_COMMIT"
	git -C "$here" cat-file -e "$PREVIOUS_COMMIT^{commit}" 2>/dev/null ||
		fail "commit $PREVIOUS_COMMIT is not in this clone's history, and the upgrade tests start from it: run git fetch --unshallow"
	mkdir -p "$cache"
	tmp=$(mktemp -d "$cache/podstead.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	git -C "$here/.." archive "$PREVIOUS_COMMIT" | tar -x -C "$tmp"
	(cd "$tmp" && CGO_ENABLED=0 GOFLAGS=-buildvcs=false go build -tags grpcnotrace -o "$tmp/podstead.out" ./cmd/podstead) || fail "cannot build podstead $PREVIOUS_COMMIT"
	mv "$tmp/podstead.out" "$out"
	rm -rf "$tmp"
	trap - EXIT
}

# newer_runc builds the runc that maps the owners of mounts into user namespaces.
newer_runc() {
	local dir=$cache/runc-$RUNC_VERSION
	[ -x "$dir/runc" ] && return 0
	echo "setup: building runc $RUNC_VERSION"
	mkdir -p "$dir"
	GOBIN=$dir CGO_ENABLED=1 GOFLAGS= go install -tags seccomp "github.com/opencontainers/runc@$RUNC_VERSION" ||
		fail "cannot build runc $RUNC_VERSION"
}

# systemd_root makes a root directory, stored as a tarball, in which a real systemd boots.
systemd_root() {
	local tarball=$cache/systemd-root-1.tar tmp mirror suite
	[ -f "$tarball" ] && return 0
	echo "setup: building a root directory with systemd"
	suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
	mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' | awk -v s="$suite" '$1 == s { print $2; exit }')
	[ -n "$mirror" ] || fail "the apt sources name no mirror for $suite"
	mkdir -p "$cache"
	tmp=$(mktemp -d "$cache/root.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	debootstrap --variant=minbase \
		--include=systemd,systemd-sysv,dbus,containerd,runc,containernetworking-plugins,iptables,iproute2 \
		"$suite" "$tmp/root" "$mirror" >"$tmp/log" 2>&1 || { tail -n 30 "$tmp/log" >&2; fail "debootstrap failed"; }
	rm -rf "$tmp/root/var/cache/apt/archives" "$tmp/root/var/lib/apt/lists"
	tar -C "$tmp/root" --numeric-owner -cf "$tmp/tar" .
	mv "$tmp/tar" "$tarball"
	rm -rf "$tmp"
	trap - EXIT
}

packages containerd runc containernetworking-plugins iptables iproute2 util-linux busybox-static ca-certificates curl
[ "$what" = runtime ] && exit 0

# The race detector and runc need a C compiler.
packages gcc libc6-dev libseccomp-dev pkg-config git systemd-container debootstrap etcd-server
newer_containerd
kubectl
debian_kubectl
api_server
newer_runc
previous_podstead
systemd_root
