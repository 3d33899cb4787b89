package options

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/podstead/podstead/cmd/podstead/kubeletconfig"
)

// Remote are the settings of the ports for those who cannot use the socket.
type Remote struct {
	// Address and ReadOnlyAddress are host:port; empty opens none.
	Address, ReadOnlyAddress string
	// CertFile and KeyFile are the serving certificate; both are empty for one
	// that podstead makes.
	CertFile, KeyFile string
	// ClientCAFile and TokenFile say who may ask; empty for none.
	ClientCAFile, TokenFile string
	// MinVersion and CipherSuites are those of crypto/tls; without any, Go's
	// own choice.
	MinVersion   uint16
	CipherSuites []uint16
	// Reviews say what a cluster is asked about those who ask there.
	Reviews Reviews
	// Debugging serves logs and lets clients into containers; Profiling tells
	// of the daemon's own memory and time.
	Debugging, Profiling bool

	host               string
	port, readOnlyPort int
	minVersion         string
	ciphers            []string
	// enabled says that something asked for a port, portGiven that it also says
	// which.
	enabled, portGiven bool
}

// defaultPort is the kubelet's.
const defaultPort = 10250

// enabling are the flags of which one is enough to open the port.
var enabling = []string{"address", "tls-cert-file", "tls-private-key-file", "client-ca-file", "token-auth-file"}

// addFlags declares flags under the kubelet's names where it has them.
func (r *Remote) addFlags(f *pflag.FlagSet) {
	f.IntVar(&r.port, "port", 0, "`port` for clients with certificates or tokens, over TLS; 0 for none (default: 10250 with --kubeconfig, or if a flag that follows, up to --token-auth-file, is given; else none)")
	f.StringVar(&r.host, "address", "0.0.0.0", "`address` of that port and of the read-only one")
	f.StringVar(&r.CertFile, "tls-cert-file", "", "PEM `file` of the serving certificate with its chain (default: podstead makes and renews one)")
	f.StringVar(&r.KeyFile, "tls-private-key-file", "", "PEM `file` of its key")
	f.StringVar(&r.ClientCAFile, "client-ca-file", "", "PEM `file` of the authorities whose client certificates count; their organization podstead:ROLE is the role")
	f.StringVar(&r.TokenFile, "token-auth-file", "", "`file` of bearer tokens, with a line TOKEN,USER,ROLE for each; ROLE is read, exec or admin")
	r.Reviews.addFlags(f)
	f.StringVar(&r.minVersion, "tls-min-version", "VersionTLS12", "oldest `version` of TLS: VersionTLS12 or VersionTLS13")
	f.StringSliceVar(&r.ciphers, "tls-cipher-suites", nil, "`names` of cipher suites for TLS 1.2 (default: Go's)")
	f.BoolVar(&r.Debugging, "enable-debugging-handlers", true, "serve logs there, and let clients into containers")
	f.BoolVar(&r.Profiling, "profiling", false, "tell admins of the daemon's own memory and time, below /debug/pprof/")
	f.IntVar(&r.readOnlyPort, "read-only-port", 0, "`port` where everybody may see states and numbers, without TLS; 0 for none")
}

// merge takes from the file what no flag says.
func (r *Remote) merge(c *kubeletconfig.Remote, f *pflag.FlagSet) {
	texts := map[string]struct{ from, to *string }{
		"address": {&c.Address, &r.host}, "tls-cert-file": {&c.CertFile, &r.CertFile}, "tls-private-key-file": {&c.KeyFile, &r.KeyFile},
		"client-ca-file": {&c.ClientCAFile, &r.ClientCAFile}, "tls-min-version": {&c.MinVersion, &r.minVersion},
	}
	for flag, t := range texts {
		if *t.from != "" && !f.Changed(flag) {
			*t.to = *t.from
			r.enabled = r.enabled || slices.Contains(enabling, flag)
		}
	}
	if c.CipherSuites != nil && !f.Changed("tls-cipher-suites") {
		r.ciphers = c.CipherSuites
	}
	r.Reviews.merge(&c.Reviews, f)
	r.portGiven = c.Port != nil
	take(f, "port", c.Port, &r.port)
	take(f, "read-only-port", c.ReadOnlyPort, &r.readOnlyPort)
	take(f, "enable-debugging-handlers", c.Debugging, &r.Debugging)
	take(f, "profiling", c.Profiling, &r.Profiling)
}

// Port is the number of the port; 0 is none.
func (r *Remote) Port() int { return r.port }

// check judges the settings. A node of a cluster has the port unless it is told
// not to: logs and sessions of the cluster come that way.
func (r *Remote) check(f *pflag.FlagSet, joins bool) error {
	r.enabled = r.enabled || joins
	for _, flag := range enabling {
		r.enabled = r.enabled || f.Changed(flag)
	}
	if r.enabled && !r.portGiven && !f.Changed("port") {
		r.port = defaultPort
	}
	for flag, port := range map[string]int{"port": r.port, "read-only-port": r.readOnlyPort} {
		if port < 0 || port > 65535 {
			return fmt.Errorf("--%s=%d: must be a port, or 0 for none", flag, port)
		}
	}
	if net.ParseIP(r.host) == nil {
		return fmt.Errorf("--address=%q: must be an IP address", r.host)
	}
	if (r.CertFile == "") != (r.KeyFile == "") {
		return fmt.Errorf("--tls-cert-file and --tls-private-key-file need each other")
	}
	if r.port != 0 && r.port == r.readOnlyPort {
		return fmt.Errorf("--read-only-port=%d: is the port of --port too", r.readOnlyPort)
	}
	if r.port != 0 {
		r.Address = net.JoinHostPort(r.host, strconv.Itoa(r.port))
	}
	if r.readOnlyPort != 0 {
		r.ReadOnlyAddress = net.JoinHostPort(r.host, strconv.Itoa(r.readOnlyPort))
	}
	switch r.minVersion {
	case "", "VersionTLS12":
		r.MinVersion = tls.VersionTLS12
	case "VersionTLS13":
		r.MinVersion = tls.VersionTLS13
	default:
		return fmt.Errorf("--tls-min-version=%q: must be VersionTLS12 or VersionTLS13", r.minVersion)
	}
	return errors.Join(r.Reviews.check(), r.checkCiphers())
}

func (r *Remote) checkCiphers() error {
	for _, name := range r.ciphers {
		at := slices.IndexFunc(tls.CipherSuites(), func(c *tls.CipherSuite) bool { return c.Name == name })
		if at < 0 {
			var known []string
			for _, c := range tls.CipherSuites() {
				if slices.Contains(c.SupportedVersions, tls.VersionTLS12) {
					known = append(known, c.Name)
				}
			}
			return fmt.Errorf("--tls-cipher-suites: %q is unknown or not safe; there are %s", name, strings.Join(known, ", "))
		}
		r.CipherSuites = append(r.CipherSuites, tls.CipherSuites()[at].ID)
	}
	return nil
}
