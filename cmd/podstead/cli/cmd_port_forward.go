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

	"github.com/podstead/podstead/cmd/podstead/cli/client"
	"github.com/podstead/podstead/cmd/podstead/cli/objects"
)

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
		Short: "Reach ports of a pod from this machine",
		Long: `Listen on local ports and carry what connects to ports of a pod.

POD is a pod's name as its manifest has it, or with the suffix -NODE. PORT is a
number or the name of a port in the manifest. LOCAL is the same number if it is
not given; with 0 or nothing before the colon a free one is taken and printed.
Each connection is made anew, so that forwarding goes on when the pod's
containers or podstead start again. Ctrl-C ends it.`,
		Example: `  podstead port-forward web 8080:80
  podstead port-forward web 8080:http :9090`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return runPortForward(cmd, o, args[0], args[1:]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.socket, "api-socket", DefaultSocket, "the daemon's `socket`")
	f.StringVarP(&o.namespace, "namespace", "n", "", "the pod's `namespace`, needed if several have a pod of this name")
	f.StringSliceVar(&o.addresses, "address", []string{"localhost"}, "the local `addresses` to listen on; localhost is 127.0.0.1 and ::1")
	return cmd
}

// forwarder carries connections to the ports of one pod.
type forwarder struct {
	c    *client.Client
	path string
	cmd  *cobra.Command
	all  sync.WaitGroup
}

func runPortForward(cmd *cobra.Command, o forwardOptions, name string, ports []string) error {
	c := client.New(o.socket)
	pod, err := objects.FindPod(cmd.Context(), c, o.namespace, name, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if pod.Status.Phase != v1.PodRunning {
		return fmt.Errorf("pod %q does not run: its phase is %s", pod.Name, pod.Status.Phase)
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	f := &forwarder{c: c, cmd: cmd, path: "/portForward/" + url.PathEscape(pod.Namespace) + "/" + url.PathEscape(pod.Name)}
	defer f.all.Wait()
	defer cancel() // before the waiting
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
			f.all.Go(func() { f.serve(ctx, l, remote) })
			context.AfterFunc(ctx, func() { _ = l.Close() })
		}
	}
	<-ctx.Done() // Ctrl-C is how one leaves
	return nil
}

// parsePorts reads LOCAL:REMOTE, of which the remote one may be a name.
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
		return 0, 0, usageError(fmt.Errorf("port %q: must be a number from 1 to 65535, or the name of a port of pod %q", after, pod.Name))
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
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for _, c := range list {
			for _, p := range c.Ports {
				if p.Name == name && p.Protocol != v1.ProtocolUDP && p.Protocol != v1.ProtocolSCTP {
					return uint16(p.ContainerPort), true
				}
			}
		}
	}
	return 0, false
}

// freePortTries is how often a free port of one address may be taken on the next.
const freePortTries = 20

// listenOn listens on one port of each address, a free one for 0.
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
		// A machine may have no IPv6; one that has it must not lead elsewhere.
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

// serve carries what connects.
func (f *forwarder) serve(ctx context.Context, l net.Listener, remote uint16) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		f.all.Go(func() {
			defer conn.Close()
			if err := f.carry(ctx, conn.(*net.TCPConn), remote); err != nil && ctx.Err() == nil {
				f.cmd.PrintErrf("podstead: connection from %s to port %d: %v\n", conn.RemoteAddr(), remote, err)
			}
		})
	}
}

// carry carries one connection in a session of its own: none waits for another.
func (f *forwarder) carry(ctx context.Context, local *net.TCPConn, remote uint16) error {
	conn, err := f.c.Upgrade(ctx, f.path, client.PortForwardProtocol)
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
	fault, err := open(v1.StreamTypeError)
	if err != nil {
		return err
	}
	_ = fault.Close() // nothing is written to it
	data, err := open(v1.StreamTypeData)
	if err != nil {
		return err
	}
	up := make(chan struct{})
	go func() {
		defer close(up)
		if _, err := io.Copy(data, local); err != nil {
			conn.Abort() // reset at this side, not ended
			return
		}
		_ = data.Close()
	}()
	if _, err := io.Copy(local, data); err != nil {
		return nil // it left
	}
	text := make(chan []byte, 1)
	go func() {
		told, _ := io.ReadAll(fault)
		text <- told
	}()
	_ = local.CloseWrite()
	select {
	case told := <-text:
		// The session is over at the other side.
		if len(told) > 0 {
			// Who connected must not take it for the end.
			_ = local.SetLinger(0)
			return errors.New(string(told))
		}
	case <-up: // both directions have ended
		<-text
	}
	return nil
}
