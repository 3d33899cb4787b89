package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/podstead/podstead/config/kubeletconfig"
)

// Remote are the settings of the ports for clients that cannot use the socket, one
// field per flag.
type Remote struct {
	// Address and ReadOnlyAddress are host:port; empty for none.
	Address, ReadOnlyAddress string
	// CertFile and KeyFile are the serving certificate; both are empty for a
	// self-signed one.
	CertFile, KeyFile string
	// ClientCAFile and TokenFile authenticate clients; empty for none.
	ClientCAFile, TokenFile string
	// MinVersion and CipherSuites are values of crypto/tls; empty for Go's defaults.
	MinVersion   uint16
	CipherSuites []uint16
	// Reviews are the settings of authentication and authorization by the cluster.
	Reviews Reviews
	// Debugging enables logs, exec, attach and port-forward; Profiling enables
	// profiles of the daemon.
	Debugging, Profiling bool

	host               string
	port, readOnlyPort int
	minVersion         string
	ciphers            []string
	// enabled reports that a setting requires the port, portGiven that the config file
	// sets its number.
	enabled, portGiven bool
}

// defaultPort is the kubelet's default.
const defaultPort = 10250

// enabling are the flags each of which opens the port.
var enabling = []string{"address", "tls-cert-file", "tls-private-key-file", "client-ca-file", "token-auth-file"}

// addFlags declares the flags; those that the kubelet has carry its names.
func (r *Remote) addFlags(f *pflag.FlagSet) {
	f.IntVar(&r.port, "port", 0, "`port` of the API over TLS, for clients with certificates or tokens; 0 for none (default: 10250 with --kubeconfig or one of the flags from --address to --token-auth-file, otherwise none)")
	f.StringVar(&r.host, "address", "0.0.0.0", "`address` of --port and --read-only-port")
	f.StringVar(&r.CertFile, "tls-cert-file", "", "PEM `file` of the serving certificate with its chain (default: a self-signed certificate that is renewed)")
	f.StringVar(&r.KeyFile, "tls-private-key-file", "", "PEM `file` of the key of --tls-cert-file")
	f.StringVar(&r.ClientCAFile, "client-ca-file", "", "PEM `file` of the certificate authorities of client certificates; the organization podstead:ROLE sets the role")
	f.StringVar(&r.TokenFile, "token-auth-file", "", "`file` of bearer tokens with one line TOKEN,USER,ROLE each; ROLE is read, exec, edit or admin")
	r.Reviews.addFlags(f)
	f.StringVar(&r.minVersion, "tls-min-version", "VersionTLS12", "minimum TLS `version`: VersionTLS12 or VersionTLS13")
	f.StringSliceVar(&r.ciphers, "tls-cipher-suites", nil, "`names` of cipher suites for TLS 1.2 (default: those of Go)")
	f.BoolVar(&r.Debugging, "enable-debugging-handlers", true, "enable logs, exec, attach and port-forward on --port")
	f.BoolVar(&r.Profiling, "profiling", false, "enable profiling of the daemon for admins, at /debug/pprof/")
	f.IntVar(&r.readOnlyPort, "read-only-port", 0, "`port` for unauthenticated read access to status and metrics, without TLS; 0 for none")
}

// merge applies the settings of the file that no flag sets.
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

// Port returns the number of the port; 0 for none.
func (r *Remote) Port() int { return r.port }

// check validates the settings. A node of a cluster opens the port unless disabled, since the
// cluster uses it for logs and sessions.
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
		return fmt.Errorf("--tls-cert-file and --tls-private-key-file must be set together")
	}
	if r.port != 0 && r.port == r.readOnlyPort {
		return fmt.Errorf("--read-only-port=%d: must differ from --port", r.readOnlyPort)
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
		i := slices.IndexFunc(tls.CipherSuites(), func(c *tls.CipherSuite) bool { return c.Name == name })
		if i < 0 {
			var known []string
			for _, c := range tls.CipherSuites() {
				if slices.Contains(c.SupportedVersions, tls.VersionTLS12) {
					known = append(known, c.Name)
				}
			}
			return fmt.Errorf("--tls-cipher-suites: %q is unknown or insecure; supported are %s", name, strings.Join(known, ", "))
		}
		r.CipherSuites = append(r.CipherSuites, tls.CipherSuites()[i].ID)
	}
	return nil
}
