package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/podstead/podstead/test/testbed"
)

// program is one of the programs that are compared.
type program interface {
	name() string
	// binary returns the path of the program.
	binary() string
	version(context.Context) (string, error)
	// start starts the program without pods. round is part of the name of its directory.
	start(ctx context.Context, round int) error
	// create lets the program run these pods, and may return before they do.
	create(ctx context.Context, pods []pod) error
	// replace gives a pod that runs another content.
	replace(ctx context.Context, p pod) error
	// remove ends a pod, and may return before it has ended.
	remove(ctx context.Context, p pod) error
	// processes returns the process IDs of the daemon and of the runtime's daemon, each 0 if
	// there is none, and the name of the processes that monitor containers.
	processes() (daemon, runtime int, monitor string)
	// stop ends the program and all of its pods.
	stop(context.Context) error
}

// pod is a pod with one container. Its word is the part that an edit changes.
type pod struct{ name, word string }

// mark returns the path of the file that the container creates when it runs.
func (p pod) mark() string { return filepath.Join(marks(), p.name+"-"+p.word) }

// gone returns the path of the file that the container creates when it ends.
func (p pod) gone() string { return p.mark() + ".gone" }

// marks returns the directory of the marks on the host.
func marks() string { return filepath.Join(testbed.Dir(), "marks") }

func (p pod) manifest() string {
	script := fmt.Sprintf(": > /marks/%s-%[2]s; trap ': > /marks/%[1]s-%[2]s.gone; exit 0' TERM; sleep 100000 & wait",
		p.name, p.word)
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %s
spec:
  containers:
  - name: main
    image: %s
    command: [sh, -c, %q]
    volumeMounts:
    - {name: marks, mountPath: /marks}
  volumes:
  - name: marks
    hostPath: {path: %s, type: Directory}
`, p.name, testbed.BusyboxImage, script, marks())
}

// writeManifests writes a file for each pod into a directory, each complete at once.
func writeManifests(dir string, pods []pod) error {
	for _, p := range pods {
		tmp := filepath.Join(dir, "."+p.name+".tmp")
		if err := os.WriteFile(tmp, []byte(p.manifest()), 0o600); err != nil {
			return err
		}
		if err := os.Rename(tmp, filepath.Join(dir, p.name+".yaml")); err != nil {
			return err
		}
	}
	return nil
}

// named returns the processes of the test bed with this name, as far as the kernel stores it.
func named(name string) (pids []int, err error) {
	const stored = 15
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		comm, err := os.ReadFile(filepath.Join("/proc", d.Name(), "comm"))
		if err == nil && strings.TrimSpace(string(comm)) == name[:min(len(name), stored)] {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
