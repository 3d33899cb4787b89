// Command pause holds the namespaces of a sandbox open: it sleeps until it gets a signal to
// terminate, and reaps its children.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// As the public image's, which kubeadm runs to test a cluster before an upgrade.
	if len(os.Args) == 2 && os.Args[1] == "-v" {
		fmt.Println("pause")
		return
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if pid <= 0 || err != nil {
				break
			}
		}
	}
}
