// Command compare measures podstead next to the kubelet in standalone mode, on the same
// containerd, and next to `podman kube play`: the start of many pods, the replacement of an
// edited pod, CPU usage while idle, memory, and the size of the program. It prints a Markdown
// table, which docs/compare.md quotes, and README in part.
//
// `make compare` installs what it needs: the kubelet is built from its Go module, podman is
// Debian's package, unpacked and not installed. A program that is missing is reported and left
// out. Everything runs in namespaces of its own, and nothing is left behind.
//
// The programs run one after the other, in several rounds; a value is the median of the rounds,
// and a factor the median of each round's ratio to podstead, so that a host that is busy in one
// round does not favor a program. The times end when the container's own process runs: it
// creates a file in a directory of the host, whose time is read. No program is asked, so none is
// slowed by the question.
//
// Conditions that are the same: the pods, the image (present before), a bridge network, and one
// YAML document for each pod. podman gets the documents of the start in one file, since that is
// the fastest way that it documents; it has no daemon, so a running pod is not compared with its
// manifest.
package main
