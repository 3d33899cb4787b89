package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/streams"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// maxForwardError is the maximum size in bytes of the daemon's error for one connection.
const maxForwardError = 64 << 10

// forwardOptions are the flags of port-forward.
type forwardOptions struct {
	socket    string
	namespace string
	addresses []string
}

func portForwardCommand() *cobra.Command {
	var o forwardOptions
	cmd := &cobra.Command{
		Use:   "port-forward POD [LOCAL:]PORT...",
		Short: "Forward one or more local ports to a pod",
		Long: `Listen on local ports and forward connections to ports of a pod.

POD is the name in the pod's manifest, or that name with the suffix -NODE. PORT is a
number or the name of a port in the manifest. LOCAL defaults to the same number; with
0 or nothing before the colon a free port is chosen and printed.

Each connection uses its own session, so that forwarding continues when containers of
the pod or podstead restart. Ctrl-C stops it.`,
		Example: `  # Forward local port 8080 to port 80 of pod web
  podstead port-forward web 8080:80

  # Forward to the port named http, and from a free local port to port 9090
  podstead port-forward web 8080:http :9090`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return runPortForward(cmd, o, args[0], args[1:]) },
	}
	f := cmd.Flags()
	socketFlag(f, &o.socket)
	f.StringVarP(&o.namespace, "namespace", "n", "",
		"`namespace` of the pod; required if pods in several namespaces have this name")
	f.StringSliceVar(&o.addresses, "address", []string{"localhost"},
		"local `addresses` to listen on; localhost means 127.0.0.1 and ::1")
	return cmd
}

// forwarder forwards connections to the ports of one pod.
type forwarder struct {
	c    *client.Client
	path string
	cmd  *cobra.Command
	open sync.WaitGroup
}

func runPortForward(cmd *cobra.Command, o forwardOptions, name string, ports []string) error {
	c := client.New(o.socket)
	pod, err := objects.FindPod(cmd.Context(), c, o.namespace, name, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if pod.Status.Phase != v1.PodRunning {
		return fmt.Errorf("cannot forward ports: pod %q is not running (phase %s)", pod.Name, pod.Status.Phase)
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	f := &forwarder{c: c, cmd: cmd, path: "/portForward/" + url.PathEscape(pod.Namespace) + "/" + url.PathEscape(pod.Name)}
	defer f.open.Wait()
	defer cancel() // runs before Wait
	for _, text := range ports {
		local, remote, err := parsePorts(text, pod)
		if err != nil {
			return err
		}
		listeners, err := listenOn(ctx, o.addresses, local)
		if err != nil {
			return err
		}
		for _, l := range listeners {
			defer l.Close()
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "Forwarding from %s -> %d\n", l.Addr(), remote); err != nil {
				return err
			}
			f.open.Go(func() { f.serve(ctx, l, remote) })
			context.AfterFunc(ctx, func() { _ = l.Close() })
		}
	}
	<-ctx.Done() // Ctrl-C is the normal way to stop
	return nil
}

// parsePorts parses LOCAL:REMOTE, where the remote port may be a name.
func parsePorts(text string, pod *v1.Pod) (local, remote uint16, err error) {
	before, after, both := strings.Cut(text, ":")
	if !both {
		after = before
	}
	number := func(s string) (uint16, bool) {
		n, err := strconv.ParseUint(s, 10, 16)
		return uint16(n), err == nil
	}
	remote, ok := number(after)
	if !ok {
		remote, ok = namedPort(pod, after)
	}
	if !ok || remote == 0 {
		return 0, 0,
			usageError(fmt.Errorf("port %q: must be a number from 1 to 65535, or the name of a port of pod %q", after, pod.Name))
	}
	switch {
	case !both:
		return remote, remote, nil
	case before == "":
		return 0, remote, nil
	}
	if local, ok = number(before); !ok {
		return 0, 0, usageError(fmt.Errorf("local port %q: must be a number from 0 to 65535", before))
	}
	return local, remote, nil
}

func namedPort(pod *v1.Pod, name string) (uint16, bool) {
	for _, kinds := range []podinfo.ContainerKinds{podinfo.RegularContainers, podinfo.InitContainers} {
		for c := range podinfo.EachContainer(&pod.Spec, kinds) {
			for _, p := range c.Ports {
				if p.Name == name && p.Protocol != v1.ProtocolUDP && p.Protocol != v1.ProtocolSCTP {
					return uint16(p.ContainerPort), true
				}
			}
		}
	}
	return 0, false
}

// freePortTries is the number of attempts to find a port that is free on all addresses.
const freePortTries = 20

// listenOn listens on the same port of each address; 0 chooses a free port.
func listenOn(ctx context.Context, addresses []string, port uint16) ([]net.Listener, error) {
	var err error
	for range freePortTries {
		var all []net.Listener
		if all, err = listenOnce(ctx, addresses, port); err == nil || port != 0 {
			return all, err
		}
	}
	return nil, err
}

func listenOnce(ctx context.Context, addresses []string, port uint16) (all []net.Listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range all {
				_ = l.Close()
			}
			all = nil
		}
	}()
	listen := func(host string) error {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(port))))
		if err != nil {
			return err
		}
		port = uint16(l.Addr().(*net.TCPAddr).Port)
		all = append(all, l)
		return nil
	}
	for _, a := range addresses {
		if a != "localhost" {
			if err := listen(a); err != nil {
				return all, err
			}
			continue
		}
		if err := listen("127.0.0.1"); err != nil {
			return all, err
		}
		// A host without IPv6 is fine. With IPv6 the port must be ours, or localhost
		// could reach another program.
		if err := listen("::1"); err != nil && hasIPv6() {
			return all, err
		}
	}
	return all, nil
}

func hasIPv6() bool {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}

// serve accepts connections and forwards each.
func (f *forwarder) serve(ctx context.Context, l net.Listener, remote uint16) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		f.open.Go(func() {
			defer conn.Close()
			if err := f.forward(ctx, conn.(*net.TCPConn), remote); err != nil && ctx.Err() == nil {
				f.cmd.PrintErrf("error forwarding connection from %s to port %d: %v\n", conn.RemoteAddr(), remote, err)
			}
		})
	}
}

// forward forwards one connection in its own session, so that no connection waits for
// another.
func (f *forwarder) forward(ctx context.Context, local *net.TCPConn, remote uint16) error {
	conn, err := streams.Upgrade(ctx, f.c, f.path, streams.PortForwardProtocol)
	if err != nil {
		return err
	}
	defer conn.Abort()
	defer context.AfterFunc(ctx, func() {
		conn.Abort()
		_ = local.Close()
	})()
	open := func(kind string) (httpstream.Stream, error) {
		return conn.Open(v1.StreamType, kind, v1.PortHeader, strconv.Itoa(int(remote)), v1.PortForwardRequestIDHeader, "0")
	}
	errorStream, err := open(v1.StreamTypeError)
	if err != nil {
		return err
	}
	_ = errorStream.Close() // nothing is written to it
	data, err := open(v1.StreamTypeData)
	if err != nil {
		return err
	}
	uploaded := make(chan struct{})
	go func() {
		defer close(uploaded)
		if _, err := io.Copy(data, local); err != nil {
			conn.Abort() // the local side was reset, not closed
			return
		}
		_ = data.Close()
	}()
	if _, err := io.Copy(local, data); err != nil {
		return nil // the local client is gone
	}
	text := make(chan []byte, 1)
	go func() {
		message, _ := io.ReadAll(io.LimitReader(errorStream, maxForwardError))
		text <- message
	}()
	_ = local.CloseWrite()
	select {
	case message := <-text:
		// The remote side has ended the session.
		if len(message) > 0 {
			// A reset tells the local client that this is not a normal end.
			_ = local.SetLinger(0)
			return errors.New(string(message))
		}
	case <-uploaded: // both directions have ended
		<-text
	}
	return nil
}
