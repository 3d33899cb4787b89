package poddns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/node/firewall"
	"github.com/podstead/podstead/node/nameserver"
	"github.com/podstead/podstead/node/nameserver/keeper"
)

const (
	// defaultDomain is the domain of the names if no cluster domain is set.
	defaultDomain = "cluster.local"
	// port is the one on which the name server listens. Pods ask at port 53, which rules
	// of the firewall redirect: other name servers of the host may listen there on all addresses.
	port = 10053
	// listener is the name of the listeners in events.
	listener = "the name server of pods"
)

// Config configures a Server.
type Config struct {
	Directory nameserver.Directory
	// Given: new pods get it. Otherwise it runs for pods that got it before it was switched off.
	Given bool
	// Addresses are those of this host in the networks of pods.
	Addresses []netip.Prefix
	// Domain is the cluster domain; empty is cluster.local.
	Domain string
	// ResolvConf is the path of the file that names the node's name servers.
	ResolvConf string
	// Command is the program of the process and its arguments.
	Command []string
	// OnListener records that the listeners cannot be opened, or that they were (nil).
	OnListener func(what string, err error)
	Events     Recorder
	Log        *slog.Logger
}

// Recorder records events; pod is nil for events of the node.
type Recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

// Server is the name server for pods. It implements dns.Nameserver. Its methods may be called concurrently.
type Server struct {
	cfg    Config
	keeper *keeper.Keeper
	// gateways are its addresses for pods with their own network, loopback that for the others;
	// the zero Addr without one.
	gateways []netip.Addr
	loopback netip.Addr
	domain   string
	firewall *firewall.PodDNS
	// networks are those of the pods.
	networks []netip.Prefix
	reach    reachability
	// noRules is why the rules of the firewall are not there.
	noRules atomic.Pointer[error]
}

// New creates a server. It starts nothing.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, domain: cmp.Or(cfg.Domain, defaultDomain)}
	for _, a := range cfg.Addresses {
		s.gateways = append(s.gateways, a.Addr())
		s.networks = append(s.networks, a.Masked())
		if a.Addr().Is4() && !s.loopback.IsValid() {
			s.loopback = loopbackOf(a.Addr())
		}
	}
	settings := nameserver.Snapshot{
		Domain: s.domain, Port: port, ResolvConf: cfg.ResolvConf, Clients: s.networks, Listen: slices.Clone(s.gateways),
	}
	if s.loopback.IsValid() {
		settings.Listen = append(settings.Listen, s.loopback)
	}
	s.firewall = firewall.NewPodDNS(firewall.PodDNSConfig{Addresses: cfg.Addresses, Loopback: s.loopback, Port: port})
	s.keeper = keeper.New(keeper.Config{
		Dir: cfg.Directory, Settings: settings, Command: cfg.Command, Log: cfg.Log,
		Changed: func(err error) { Report(err, cfg.OnListener, cfg.Log) },
	})
	return s
}

// loopbackOf returns the loopback address that stands for an address of the pod network: pods on
// the host's network reach it also before the bridge exists.
func loopbackOf(gateway netip.Addr) netip.Addr {
	b := gateway.As4()
	b[0] = 127
	return netip.AddrFrom4(b)
}

// Report records why the name server cannot be reached, or with nil that it can.
func Report(err error, onListener func(what string, err error), log *slog.Logger) {
	if err == nil {
		onListener(listener, nil)
		log.Info("Name server of pods is available")
		return
	}
	onListener(listener, fmt.Errorf("cannot open %s, retrying; pods that start now get the node's name servers and do "+
		"not resolve the names of other pods: %w", listener, err))
	log.Warn("Name server of pods is not available, pods that start now get the node's name servers", "err", err)
}

// Start finds the process or starts it, and installs the rules of the firewall. It is called before the first pod,
// whose resolv.conf depends on it. What fails is reported, and tried again.
func (s *Server) Start(ctx context.Context) {
	_ = s.keeper.Start(ctx)
	s.EnsureFirewall(ctx)
}

// Run keeps the process running until ctx ends; the process continues.
func (s *Server) Run(ctx context.Context) error { return s.keeper.Run(ctx) }

// Given reports whether new pods get the name server.
func (s *Server) Given() bool { return s.cfg.Given }

// Domain implements dns.Nameserver.
func (s *Server) Domain() string { return s.domain }

// Ready reports whether pods that start now get the name server.
func (s *Server) Ready() bool {
	_, err := s.Addresses(false)
	return err == nil
}

// Addresses implements dns.Nameserver.
func (s *Server) Addresses(hostNetwork bool) ([]string, error) {
	addresses := s.gateways
	if err := s.noRules.Load(); err != nil && *err != nil {
		return nil, *err
	}
	if err := s.reach.result(); err != nil && !hostNetwork {
		return nil, err
	}
	if hostNetwork && s.loopback.IsValid() {
		addresses = []netip.Addr{s.loopback}
	}
	var reached []string
	for _, a := range addresses {
		if s.keeper.Listening(a) {
			reached = append(reached, a.String())
		}
	}
	if len(reached) > 0 {
		return reached, nil
	}
	status, running := s.keeper.Status()
	for _, a := range addresses {
		if why := status.Failed[a.String()]; running && why != "" {
			return nil, errors.New(why)
		}
	}
	return nil, errors.New("it does not run")
}

// EnsureFirewall installs the rules that lead the queries of pods to the name server, if they are missing. Pods
// that start without them get the node's name servers.
func (s *Server) EnsureFirewall(ctx context.Context) {
	err := s.firewall.Ensure(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		err = fmt.Errorf("the rules that lead the queries of pods to it cannot be installed: %w", err)
		s.cfg.Log.Warn("Name server of pods is not available, pods that start now get the node's name servers; install "+
			"iptables, or set --pod-dns=never (podDNS)", "err", err)
	}
	s.noRules.Store(&err)
}
