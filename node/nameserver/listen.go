package nameserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/retry"
)

// The delays between two attempts to open a listener.
const (
	listenRetryMin = time.Second
	listenRetryMax = 30 * time.Second
)

// errorPause follows an error of a socket, such as too many open files: one that does not pass must not keep a
// processor busy.
const errorPause = 100 * time.Millisecond

// listener are the two sockets of an address.
type listener struct {
	udp *net.UDPConn
	tcp *net.TCPListener
}

func (l *listener) close() {
	_ = l.udp.Close()
	_ = l.tcp.Close()
}

// listeners are those that are open. mu protects all fields.
type listeners struct {
	mu     sync.Mutex
	port   uint16
	open   map[netip.Addr]*listener
	failed map[netip.Addr]string
	// inherited are the sockets of the program that this one has replaced, by socketName.
	inherited map[string]*os.File
	// stopRetry ends the attempts for the previous addresses.
	stopRetry context.CancelFunc
	served    sync.WaitGroup
	// receiving is held by whatever receives from a socket, until what it received is in progress or done.
	// stopReceiving takes it.
	receiving sync.RWMutex
}

// stopReceiving stops repeat, so that what arrives waits in the sockets, until resume is called. It holds mu meanwhile.
func (l *listeners) stopReceiving() (resume func()) {
	l.mu.Lock()
	l.setDeadline(time.Unix(1, 0)) // ends the calls that wait
	l.receiving.Lock()
	return func() {
		l.setDeadline(time.Time{})
		l.receiving.Unlock()
		l.mu.Unlock()
	}
}

// setDeadline sets that of receiving from each socket; mu is held.
func (l *listeners) setDeadline(at time.Time) {
	for _, open := range l.open {
		_ = open.udp.SetReadDeadline(at)
		_ = open.tcp.SetDeadline(at)
	}
}

// isClosed reports whether an error of a socket means that it was closed.
func isClosed(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, net.ErrClosed)
}

// serve answers at an address until its sockets are closed.
func (s *Server) serve(ctx context.Context, at *listener, own netip.Addr) {
	l, buffer := &s.listeners, make([]byte, maxQuery+1)
	l.served.Go(func() { l.repeat(ctx, func() error { return s.receiveUDP(ctx, at.udp, buffer, own) }) })
	l.served.Go(func() { l.repeat(ctx, func() error { return s.acceptTCP(ctx, at.tcp, own) }) })
}

// repeat calls receive, which receives from a socket once, until that is closed.
func (l *listeners) repeat(ctx context.Context, receive func() error) {
	for {
		l.receiving.RLock()
		err := receive()
		l.receiving.RUnlock()
		switch {
		case isClosed(ctx, err):
			return
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded): // the deadline is that of stopReceiving
			retry.Sleep(ctx, errorPause)
		}
	}
}

// listen opens what is to be open and is not, and closes the rest. Addresses that cannot be
// opened are tried again until ctx ends or the next call.
func (s *Server) listen(ctx context.Context, addresses []netip.Addr, port uint16) {
	l := &s.listeners
	l.mu.Lock()
	if l.stopRetry != nil {
		l.stopRetry()
	}
	retries, stop := context.WithCancel(ctx)
	l.stopRetry = stop
	for a, open := range l.open {
		if !slices.Contains(addresses, a) || l.port != port {
			open.close()
			delete(l.open, a)
		}
	}
	l.port = port
	clear(l.failed)
	l.mu.Unlock()
	if s.listenOnce(ctx, retries, addresses) {
		l.mu.Lock()
		// What nobody took over is of no use any more.
		for name, f := range l.inherited {
			_ = f.Close()
			delete(l.inherited, name)
		}
		l.mu.Unlock()
		return
	}
	go func() {
		for delay := listenRetryMin; ; delay = min(2*delay, listenRetryMax) {
			if !retry.Sleep(retries, delay) {
				return
			}
			if s.listenOnce(ctx, retries, addresses) {
				return
			}
		}
	}()
}

// listenOnce tries to open each address, and reports whether all are open, or nothing is to be
// tried any more because retry has ended. The sockets are served until ctx ends.
func (s *Server) listenOnce(ctx, retry context.Context, addresses []netip.Addr) bool {
	l := &s.listeners
	l.mu.Lock()
	defer l.mu.Unlock()
	if retry.Err() != nil {
		return true
	}
	changed := false
	for _, a := range addresses {
		if l.open[a] != nil {
			continue
		}
		opened, err := l.openAddress(ctx, a)
		if err != nil {
			if text := err.Error(); text != l.failed[a] {
				l.failed[a], changed = text, true
				s.log.Warn("Failed to open a listener, retrying", "address", a, "err", err)
			}
			continue
		}
		s.log.Info("Listener opened", "address", a, "port", l.port)
		l.open[a], changed = opened, true
		delete(l.failed, a)
		s.serve(ctx, opened, a)
	}
	if changed {
		s.statusChanged.Notify()
	}
	return len(l.failed) == 0
}

// openAddress opens both sockets of an address; mu is held.
func (l *listeners) openAddress(ctx context.Context, a netip.Addr) (*listener, error) {
	if opened, err := l.inherit(a); opened != nil || err != nil {
		return opened, err
	}
	config := net.ListenConfig{Control: setFreebind}
	at := netip.AddrPortFrom(a, l.port).String()
	udp, err := config.ListenPacket(ctx, "udp", at)
	if err != nil {
		return nil, err
	}
	tcp, err := config.Listen(ctx, "tcp", at)
	if err != nil {
		_ = udp.Close()
		return nil, err
	}
	return &listener{udp: udp.(*net.UDPConn), tcp: tcp.(*net.TCPListener)}, nil
}

// setFreebind lets a socket have an address that the host does not have yet: the bridge of the
// pods and its address exist only once the first pod has started.
func setFreebind(network, _ string, raw syscall.RawConn) error {
	level, option := unix.IPPROTO_IP, unix.IP_FREEBIND
	if strings.HasSuffix(network, "6") {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_FREEBIND
	}
	var setErr error
	err := raw.Control(func(fd uintptr) { setErr = unix.SetsockoptInt(int(fd), level, option, 1) })
	return errors.Join(err, setErr)
}

// closeAll closes all sockets and waits until nothing uses them.
func (l *listeners) closeAll() {
	l.mu.Lock()
	if l.stopRetry != nil {
		l.stopRetry()
	}
	for a, open := range l.open {
		open.close()
		delete(l.open, a)
	}
	l.mu.Unlock()
	l.served.Wait()
}

// state returns the addresses that are open, and why others are not.
func (l *listeners) state() (listening []netip.Addr, failed map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for a := range l.open {
		listening = append(listening, a)
	}
	slices.SortFunc(listening, netip.Addr.Compare)
	failed = map[string]string{}
	for a, why := range l.failed {
		failed[a.String()] = why
	}
	return listening, failed
}

// socketName names a socket for the program that takes it over.
func socketName(network string, a netip.Addr, port uint16) string {
	return fmt.Sprintf("%s/%s", network, netip.AddrPortFrom(a, port))
}

// inherit returns the sockets of the program that this one has replaced, nil if there are none;
// mu is held.
func (l *listeners) inherit(a netip.Addr) (*listener, error) {
	udp, tcp := l.inherited[socketName("udp", a, l.port)], l.inherited[socketName("tcp", a, l.port)]
	if udp == nil || tcp == nil {
		return nil, nil
	}
	delete(l.inherited, socketName("udp", a, l.port))
	delete(l.inherited, socketName("tcp", a, l.port))
	defer udp.Close()
	defer tcp.Close()
	packets, err := net.FilePacketConn(udp)
	if err != nil {
		return nil, err
	}
	conns, err := net.FileListener(tcp)
	if err != nil {
		_ = packets.Close()
		return nil, err
	}
	udpConn, isUDP := packets.(*net.UDPConn)
	tcpListener, isTCP := conns.(*net.TCPListener)
	if !isUDP || !isTCP {
		_, _ = packets.Close(), conns.Close()
		return nil, errors.New("the inherited sockets are of another kind")
	}
	return &listener{udp: udpConn, tcp: tcpListener}, nil
}
