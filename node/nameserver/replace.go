package nameserver

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// socketsVariable is the environment variable with the sockets that a program takes over, as
// NAME=FD separated by spaces.
const socketsVariable = "PODSTEAD_NAMESERVER_SOCKETS"

// replaceDrain limits how long a replacement waits for queries in progress. What arrives meanwhile waits in the
// sockets, which the next program has too.
const replaceDrain = time.Second

// inheritSockets returns the sockets of the program that this one has replaced.
func inheritSockets() (map[string]*os.File, error) {
	text := os.Getenv(socketsVariable)
	if err := os.Unsetenv(socketsVariable); err != nil {
		return nil, err
	}
	sockets := map[string]*os.File{}
	for _, entry := range strings.Fields(text) {
		name, number, _ := strings.Cut(entry, "=")
		fd, err := strconv.Atoi(number)
		if err != nil || fd < 3 {
			return sockets, fmt.Errorf("%s has the invalid entry %q", socketsVariable, entry)
		}
		unix.CloseOnExec(fd)
		sockets[name] = os.NewFile(uintptr(fd), name)
	}
	return sockets, nil
}

// replace executes another program in this process, which keeps the open sockets: no packet is
// lost, and no other process can take the port. It returns only if that fails.
func (s *Server) replace(ctx context.Context, argv []string) error {
	if len(argv) == 0 {
		return fmt.Errorf("no program is named")
	}
	l := &s.listeners
	resume := l.stopReceiving()
	defer resume()
	select {
	case <-s.progress.idle():
	case <-time.After(replaceDrain):
	case <-ctx.Done():
		return ctx.Err()
	}
	sockets := map[string]syscall.Conn{}
	for name, f := range l.inherited { // not in use yet
		sockets[name] = f
	}
	for a, open := range l.open {
		sockets[socketName("udp", a, l.port)], sockets[socketName("tcp", a, l.port)] = open.udp, open.tcp
	}
	var entries []string
	for name, socket := range sockets {
		fd, err := duplicate(socket)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		entries = append(entries, fmt.Sprintf("%s=%d", name, fd))
	}
	environment := append(os.Environ(), socketsVariable+"="+strings.Join(entries, " "))
	return unix.Exec(argv[0], argv[1:], environment)
}

// duplicate returns another descriptor of a socket, which the next program inherits.
func duplicate(socket syscall.Conn) (fd int, err error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	if controlErr := raw.Control(func(own uintptr) { fd, err = unix.FcntlInt(own, unix.F_DUPFD, 3) }); controlErr != nil {
		return 0, controlErr
	}
	return fd, err
}
