package preflight

import (
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/boundedfile"
)

// Listener returns the process ID of what listens on the socket, 0 if
// there is none.
func Listener(socket string) int {
	conn, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return 0
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	_ = raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(peer.Pid)
		}
	})
	return pid
}

// Arguments returns the command line of a process, with the name of the program; nil if it is unknown.
func Arguments(pid int) []string {
	text, err := boundedfile.Head(fmt.Sprintf("/proc/%d/cmdline", pid), maxCommandLine)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
}
