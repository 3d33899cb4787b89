#!/usr/bin/env bash
# Runs the end-to-end tests by subject, which are the directories next to this file, and prints the time of each.
#
#   test/e2e/run.sh [SUBJECT] [FLAG...]
#
# Without a subject it runs all of them, or with the flag -run those with a test of that name. The flags are those of
# go test. The tests need root, and what test/setup.sh installs.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=test/testbed/versions.env
. test/testbed/versions.env

# The subjects that take longest come first, so that none of them runs alone at the end. docs, systemd and install boot
# machines, each of which takes a dozen of the 128 inotify instances that root has: they are far from each other.
longest=(docs pods cluster faults systemd hostile resources api pressure install)
all=("${longest[@]}")
for directory in test/e2e/*/; do
	name=$(basename "$directory")
	[ "$name" = harness ] || [[ " ${longest[*]} " = *" $name "* ]] || all+=("$name")
done

subjects=("${all[@]}")
if [ $# -gt 0 ] && [ -n "$1" ] && [ "${1#-}" = "$1" ]; then
	[[ " ${all[*]} " = *" $1 "* ]] || { echo "there is no subject $1, only ${all[*]}" >&2; exit 2; }
	subjects=("$1")
fi
[ $# -eq 0 ] || [ "${1#-}" != "$1" ] || shift

# tests prints the names of the tests of a subject.
tests() { sed -nE 's/^func (Test\w+)\(t .*/\1/p' "test/e2e/$1/"*_test.go; }

# with_test prints the subjects, of those given, that have a test whose name matches.
with_test() {
	local pattern=$1 name
	shift
	for name in "$@"; do
		if tests "$name" | grep -E -- "$pattern" >/dev/null; then echo "$name"; fi
	done
}

# A test that is looked for in all subjects is soon found: no other subject is built.
for ((i = 1; i <= $#; i++)); do
	pattern=
	case ${!i} in
		-run | --run) next=$((i + 1)) pattern=${!next:-} ;;
		-run=* | --run=*) pattern=${!i#*=} ;;
	esac
	[ -z "$pattern" ] || mapfile -t subjects < <(with_test "${pattern%%/*}" "${subjects[@]}")
done
[ ${#subjects[@]} -gt 0 ] || { echo "no test matches $*" >&2; exit 2; }

# Tests mostly wait, so more of them run in parallel than there are cores.
parallel=(-p 2 -parallel 5)
[ ${#subjects[@]} -gt 1 ] || parallel=(-parallel 6)

# One build for all subjects; without these variables, each builds the programs itself.
mkdir -p bin/e2e
export PODSTEAD_TESTBED_PRODUCT=$PWD/bin/e2e/podstead PODSTEAD_TESTBED_PAUSE=$PWD/bin/e2e/pause PODSTEAD_TESTBED_PORTSERVER=$PWD/bin/e2e/portserver
CGO_ENABLED=0 go build -tags grpcnotrace -o bin/e2e/ ./cmd/podstead
CGO_ENABLED=0 go build -ldflags='-s -w' -o bin/e2e/ ./test/testbed/pause ./test/testbed/portserver

# make check has vetted the tests.
status=0
go run "gotest.tools/gotestsum@$GOTESTSUM_VERSION" --format testname --hide-summary skipped --jsonfile bin/e2e/tests.json -- \
	-count=1 -vet=off -timeout 45m "${parallel[@]}" "$@" "${subjects[@]/#/./test/e2e/}" || status=$?

echo
echo "seconds of each subject; bin/e2e/tests.json has those of each test:"
grep -v '"Test":' bin/e2e/tests.json |
	sed -nE 's#.*"Action":"(pass|fail)","Package":".*/test/e2e/([^"]*)","Elapsed":([0-9]+).*#\3 \2 \1#p' | sort -rn |
	while read -r seconds name result; do printf '%6d  %s%s\n' "$seconds" "$name" "$([ "$result" = pass ] || echo ' (failed)')"; done
exit $status
