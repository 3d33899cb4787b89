#!/usr/bin/env bash
# Installs the dependencies of the tests, the benchmark and the demo on Debian:
# packages, newer versions of some tools, and a small root directory with systemd.
# It skips everything that is already installed, so a second run takes a moment.
#
#   test/setup.sh           all dependencies of the tests
#   test/setup.sh runtime   dependencies of the demo: only packages
#   test/setup.sh machine   all, and those of the quick tests in a virtual machine
#   test/setup.sh machines  all, and those of all tests in virtual machines
#   test/setup.sh compare   those of the demo, and what podstead is compared with
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=test/testbed/versions.env
. "$here/testbed/versions.env"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/podstead-test
what=${1:-all}

fail() { echo "setup: $*" >&2; exit 1; }

[ "$(id -u)" = 0 ] || fail "must run as root to install packages; use sudo"
command -v go >/dev/null || fail "go is not in PATH; install Go 1.26 or newer"
command -v apt-get >/dev/null || fail "apt-get not found; on a system other than Debian install containerd, runc, the CNI plugins, iptables and busybox manually"

# packages NAME... installs the packages that are missing.
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
		fail "failed to install ${missing[*]} with apt-get; log: $log"
	fi
	rm -f "$log"
}

# newer_containerd builds a containerd that supports container events.
newer_containerd() {
	local dir=$cache/containerd-$CONTAINERD_VERSION p
	for p in containerd containerd-shim-runc-v2; do
		[ -x "$dir/$p" ] && continue
		echo "setup: building $p $CONTAINERD_VERSION"
		mkdir -p "$dir"
		GOBIN=$dir CGO_ENABLED=0 GOFLAGS='' go install "github.com/containerd/containerd/v2/cmd/$p@$CONTAINERD_VERSION" ||
			fail "failed to build $p $CONTAINERD_VERSION"
	done
}

# nfpm builds the program that makes packages.
nfpm() {
	local dir=$cache/nfpm-$NFPM_VERSION
	[ -x "$dir/nfpm" ] && return 0
	echo "setup: building nfpm $NFPM_VERSION"
	mkdir -p "$dir"
	GOBIN=$dir CGO_ENABLED=0 GOFLAGS='' go install -ldflags='-s -w' "github.com/goreleaser/nfpm/v2/cmd/nfpm@$NFPM_VERSION" ||
		fail "failed to build nfpm $NFPM_VERSION"
}

# oras builds the program that pushes artifacts to registries.
oras() {
	local dir=$cache/oras-$ORAS_VERSION
	[ -x "$dir/oras" ] && return 0
	echo "setup: building oras $ORAS_VERSION"
	mkdir -p "$dir"
	GOBIN=$dir CGO_ENABLED=0 GOFLAGS='' go install -ldflags='-s -w' "oras.land/oras/cmd/oras@$ORAS_VERSION" ||
		fail "failed to build oras $ORAS_VERSION"
}

# hugo builds the program that makes the site of the documentation.
hugo() {
	local dir=$cache/hugo-$HUGO_VERSION
	[ -x "$dir/hugo" ] && return 0
	echo "setup: building Hugo $HUGO_VERSION"
	mkdir -p "$dir"
	GOBIN=$dir CGO_ENABLED=0 GOFLAGS='' go install -ldflags='-s -w' "github.com/gohugoio/hugo@$HUGO_VERSION" ||
		fail "failed to build Hugo $HUGO_VERSION"
}

# tools builds the programs of test/tools with one command, so that what they share is compiled
# once: kubectl, cosign, the metrics server, and a control plane with kubeadm as one program with a
# link for each component.
tools() {
	local dir package=k8s.io/component-base/version name major minor
	dir=$cache/tools-$(tools_version)
	[ -e "$dir/kubernetes" ] && return 0
	echo "setup: building Kubernetes $KUBERNETES_VERSION, kubectl, the metrics server and cosign"
	rm -rf "$dir"
	mkdir -p "$dir/bin" "$dir/kubernetes.new"
	IFS=. read -r major minor _ <<<"${KUBERNETES_VERSION#v}"
	(cd "$here/tools" && CGO_ENABLED=0 GOFLAGS='' go build \
		-ldflags="-s -w -X $package.gitVersion=$KUBERNETES_VERSION -X $package.gitMajor=$major -X $package.gitMinor=$minor" \
		-o "$dir/bin/" ./kubernetes ./kubectl ./metrics-server ./cosign &&
		cp -r --no-preserve=mode "$(go list -m -f '{{.Dir}}' sigs.k8s.io/metrics-server)/manifests/base" "$dir/metrics-server") ||
		fail "failed to build the programs of test/tools"
	for name in etcd kube-apiserver kube-controller-manager kube-scheduler kubeadm; do
		ln -s kubernetes "$dir/kubernetes.new/$name"
	done
	mv "$dir/bin/kubernetes" "$dir/kubernetes.new/"
	mv "$dir/kubernetes.new" "$dir/kubernetes"
}

# tools_version prints what differs between two versions of test/tools; the package testbed has the same.
tools_version() { (cd "$here/tools" && cat go.mod ./*/main.go | sha256sum | cut -c 1-16); }

# sample_device_plugin builds Kubernetes' device plugin for tests.
sample_device_plugin() {
	local out=$cache/sample-device-plugin-$KUBERNETES_VERSION
	[ -x "$out" ] && return 0
	echo "setup: building the sample device plugin $KUBERNETES_VERSION"
	mkdir -p "$cache"
	(cd "$here/tools" && CGO_ENABLED=0 GOFLAGS='' go build -ldflags='-s -w' -o "$out" k8s.io/kubernetes/test/images/sample-device-plugin) ||
		fail "failed to build the sample device plugin $KUBERNETES_VERSION"
}

# dra_test_driver builds Kubernetes' driver of dynamic resource allocation for tests.
dra_test_driver() {
	local out=$cache/dra-test-driver-$KUBERNETES_VERSION
	[ -x "$out" ] && return 0
	echo "setup: building the DRA test driver $KUBERNETES_VERSION"
	mkdir -p "$cache"
	(cd "$here/tools" && CGO_ENABLED=0 GOFLAGS='' go build -ldflags='-s -w' -o "$out" k8s.io/kubernetes/test/e2e/dra/test-driver) ||
		fail "failed to build the DRA test driver $KUBERNETES_VERSION"
}

# csi_driver builds the CSI driver of the tests, once for each version of its sources; the package
# testbed computes the same hash.
csi_driver() {
	local out
	out=$cache/csi-driver-$(cd "$here/csidriver" && cat go.mod ./*.go | sha256sum | cut -c 1-16)
	[ -x "$out" ] && return 0
	echo "setup: building the CSI driver of the tests"
	mkdir -p "$cache"
	(cd "$here/csidriver" && CGO_ENABLED=0 GOFLAGS='' go build -ldflags='-s -w' -o "$out" .) ||
		fail "failed to build the CSI driver of the tests"
}

# csi_controllers builds the programs of Kubernetes CSI that attach and expand volumes, once for each version; the
# package testbed computes the same hash.
csi_controllers() {
	local dir
	dir=$cache/csi-controllers-$(sha256sum <"$here/csicontrollers/go.mod" | cut -c 1-16)
	[ -x "$dir/csi-resizer" ] && return 0
	echo "setup: building csi-attacher and csi-resizer"
	mkdir -p "$dir"
	(cd "$here/csicontrollers" && CGO_ENABLED=0 GOFLAGS='' go build -ldflags='-s -w' -o "$dir/" tool) ||
		fail "failed to build csi-attacher and csi-resizer"
}

# kubelet builds the kubelet, as Kubernetes' releases do apart from cgo.
kubelet() {
	local out=$cache/kubelet-$KUBERNETES_VERSION package=k8s.io/component-base/version major minor
	[ -x "$out" ] && return 0
	echo "setup: building the kubelet $KUBERNETES_VERSION"
	IFS=. read -r major minor _ <<<"${KUBERNETES_VERSION#v}"
	(cd "$here/tools" && CGO_ENABLED=0 GOFLAGS='' go build \
		-ldflags="-s -w -X $package.gitVersion=$KUBERNETES_VERSION -X $package.gitMajor=$major -X $package.gitMinor=$minor" \
		-o "$out" ./kubelet) || fail "failed to build the kubelet $KUBERNETES_VERSION"
}

# unpack DIR PACKAGES... unpacks packages of Debian into a directory of the cache, without installing them.
unpack() {
	local dir=$cache/$1 tmp p
	shift
	[ -d "$dir" ] && return 0
	echo "setup: unpacking Debian's $*"
	mkdir -p "$cache"
	tmp=$(mktemp -d "$cache/unpack.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	chmod 755 "$tmp"
	(cd "$tmp" && { apt-get download "$@" || { apt-get update && apt-get download "$@"; }; }) >"$tmp/log" 2>&1 ||
		{ tail -n 30 "$tmp/log" >&2; fail "failed to download Debian's $*"; }
	for p in "$tmp"/*.deb; do dpkg-deb -x "$p" "$tmp/root"; done
	mv "$tmp/root" "$dir"
	rm -rf "$tmp"
	trap - EXIT
}

# podman unpacks Debian's podman and conmon, whose packages would put a network configuration for every
# runtime into /etc.
podman() {
	[ -x /usr/bin/podman ] || unpack podman-debian podman conmon libgpgme11 libsubid4
}

# previous_podstead builds podstead at each of PREVIOUS_COMMITS from the git history.
previous_podstead() {
	local commit
	for commit in ${PREVIOUS_COMMITS//,/ }; do podstead_at "$commit"; done
}

podstead_at() {
	local commit=$1 out=$cache/podstead-$1 tmp
	[ -x "$out" ] && return 0
	echo "setup: building podstead $commit"
	git -C "$here" cat-file -e "$commit^{commit}" 2>/dev/null ||
		fail "commit $commit, which the upgrade tests need, is not in the history of this clone; run git fetch --unshallow"
	mkdir -p "$cache"
	tmp=$(mktemp -d "$cache/podstead.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	git -C "$here/.." archive "$commit" | tar -x -C "$tmp"
	(cd "$tmp" && CGO_ENABLED=0 GOFLAGS=-buildvcs=false go build -tags grpcnotrace -o "$tmp/podstead.out" ./cmd/podstead) || fail "failed to build podstead $commit"
	mv "$tmp/podstead.out" "$out"
	rm -rf "$tmp"
	trap - EXIT
}

# newer_runc builds a runc that supports idmapped mounts, which user namespaces need.
newer_runc() {
	local dir=$cache/runc-$RUNC_VERSION
	[ -x "$dir/runc" ] && return 0
	echo "setup: building runc $RUNC_VERSION"
	mkdir -p "$dir"
	GOBIN=$dir CGO_ENABLED=1 GOFLAGS='' go install -tags seccomp "github.com/opencontainers/runc@$RUNC_VERSION" ||
		fail "failed to build runc $RUNC_VERSION"
}

# systemd_root creates a tarball of a root directory in which a real systemd boots.
systemd_root() {
	local tarball=$cache/systemd-root-1.tar tmp mirror suite
	[ -f "$tarball" ] && return 0
	echo "setup: building a root directory with systemd"
	suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
	mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' | awk -v s="$suite" '$1 == s { print $2; exit }')
	[ -n "$mirror" ] || fail "no mirror for $suite found in the apt sources"
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

# machine_image ARCHITECTURE builds the disk image of the machine tests, once for each version of its
# recipe.
machine_image() {
	local dir
	dir=$cache/machine-$1-$(cat "$here/machine/image.sh" "$here/machine/packages" | sha256sum | cut -c 1-16)
	[ -d "$dir" ] && return 0
	echo "setup: building the $1 disk image of the machine tests"
	"$here/machine/image.sh" "$dir" "$1" || fail "failed to build the $1 disk image of the machine tests"
}

# apt_repository downloads what podstead's package recommends, and writes the index of an apt
# repository with it, from which the tests of an installation install.
apt_repository() {
	local dir=$cache/apt-repository-1 tmp deb
	[ -d "$dir" ] && return 0
	echo "setup: downloading the packages that podstead recommends"
	tmp=$(mktemp -d "$cache/packages.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	chmod 755 "$tmp"
	set -- containerd runc containernetworking-plugins iptables
	(cd "$tmp" && { apt-get download "$@" || { apt-get update && apt-get download "$@"; }; }) >"$tmp.log" 2>&1 ||
		{ tail -n 30 "$tmp.log" >&2; fail "failed to download $*"; }
	rm -f "$tmp.log"
	for deb in "$tmp"/*.deb; do
		dpkg-deb -f "$deb"
		printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$(basename "$deb")" "$(stat -c %s "$deb")" "$(sha256sum "$deb" | cut -d ' ' -f 1)"
	done >"$tmp/Packages"
	mv "$tmp" "$dir"
	trap - EXIT
}

packages containerd runc containernetworking-plugins iptables iproute2 util-linux busybox-static ca-certificates curl
[ "$what" = runtime ] && exit 0
if [ "$what" = compare ]; then
	packages gcc libc6-dev libseccomp-dev pkg-config git libdevmapper1.02.1 libglib2.0-0
	newer_containerd
	newer_runc
	kubelet
	podman
	exit 0
fi

# The race detector and runc need a C compiler.
packages gcc libc6-dev libseccomp-dev pkg-config git systemd-container debootstrap etcd-server
packages lintian man-db rpm shellcheck qemu-user-static chromium-headless-shell
newer_containerd
nfpm
hugo
oras
tools
sample_device_plugin
dra_test_driver
csi_driver
csi_controllers
# Debian's kubectl is years older than that of test/tools.
unpack kubernetes-client-debian kubernetes-client
unpack prometheus-root-debian prometheus
unpack caddy-debian caddy
newer_runc
previous_podstead
systemd_root
apt_repository
[ "$what" = machine ] || [ "$what" = machines ] || exit 0
packages qemu-system-x86 qemu-utils mmdebstrap
machine_image amd64
[ "$what" = machines ] || exit 0
packages qemu-system-arm arch-test
machine_image arm64
