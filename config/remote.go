package config

import (
	"crypto/tls"
	"net"
	"slices"
	"strconv"
	"strings"
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
}

// defaultPort is the kubelet's default.
const defaultPort = 10250

func (o *Options) remoteSettings() []setting {
	r := &o.Remote
	return slices.Concat([]setting{
		{flag: "port", field: "port", value: integer(&r.port, 0, 0, maxPort), check: isPort(&r.port),
			help: "`port` of the API over TLS, for clients with certificates or tokens; 0 for none (default: 10250 with " +
				"--kubeconfig or one of the flags from --address to --token-auth-file, otherwise none)"},
		{flag: "address", field: "address", value: text(&r.host, "0.0.0.0"), check: isIP(&r.host),
			help: "`address` of --port and --read-only-port"},
		{flag: "tls-cert-file", field: "tlsCertFile", value: file(&r.CertFile, ""),
			help: "PEM `file` of the serving certificate with its chain (default: a self-signed certificate that is renewed)"},
		{flag: "tls-private-key-file", field: "tlsPrivateKeyFile", value: file(&r.KeyFile, ""),
			help: "PEM `file` of the key of --tls-cert-file"},
		{flag: "client-ca-file", field: "authentication.x509.clientCAFile", value: file(&r.ClientCAFile, ""),
			shown: func(RuntimeDefaults) any { return r.ClientCAFile },
			help: "PEM `file` of the certificate authorities of client certificates; the organization podstead:ROLE sets the " +
				"role"},
		{flag: "token-auth-file", own: "tokenAuthFile", value: file(&r.TokenFile, ""),
			help: "`file` of bearer tokens with one line TOKEN,USER,ROLE each; ROLE is read, exec, edit or admin"},
	}, o.reviewSettings(), []setting{
		{
			flag: "tls-min-version", field: "tlsMinVersion",
			value: choice(&r.minVersion, "VersionTLS12", "=%q: must be VersionTLS12 or VersionTLS13", "VersionTLS12",
				"VersionTLS13"),
			check: func(*setting) {
				if r.MinVersion = tls.VersionTLS12; r.minVersion == "VersionTLS13" {
					r.MinVersion = tls.VersionTLS13
				}
			},
			help: "minimum TLS `version`: VersionTLS12 or VersionTLS13",
		},
		{flag: "tls-cipher-suites", field: "tlsCipherSuites", value: texts(&r.ciphers), check: r.checkCiphers,
			help: "`names` of cipher suites for TLS 1.2 (default: those of Go)"},
		{flag: "enable-debugging-handlers", field: "enableDebuggingHandlers", value: boolean(&r.Debugging, true),
			help: "enable logs, exec, attach and port-forward on --port"},
		{flag: "profiling", field: "enableProfilingHandler", value: boolean(&r.Profiling, false),
			help: "enable profiling of the daemon for admins, at /debug/pprof/"},
		{flag: "read-only-port", field: "readOnlyPort", value: integer(&r.readOnlyPort, 0, 0, maxPort),
			check: isPort(&r.readOnlyPort),
			help:  "`port` for unauthenticated read access to status and metrics, without TLS; 0 for none"},
	})
}

// Port returns the number of the port; 0 for none.
func (r *Remote) Port() int { return r.port }

// check sets the addresses. A node of a cluster opens the port unless disabled, since the cluster
// uses it for logs and sessions, and so does each setting of who can connect.
func (r *Remote) check(t *table, joins bool) {
	opens := joins
	for _, v := range []*string{&r.host, &r.CertFile, &r.KeyFile, &r.ClientCAFile, &r.TokenFile} {
		s := t.at(v)
		opens = opens || s.source == fromFlag || s.source == fromFile && *v != ""
	}
	port, readOnly := t.at(&r.port), t.at(&r.readOnlyPort)
	if opens && !port.isSet() {
		r.port = defaultPort
	}
	if (r.CertFile == "") != (r.KeyFile == "") {
		t.fail("%s and %s must be set together", t.at(&r.CertFile), t.at(&r.KeyFile))
	}
	if r.port != 0 && r.port == r.readOnlyPort {
		t.fail("%s=%d: must differ from %s", readOnly, r.readOnlyPort, port)
	}
	if r.port != 0 {
		r.Address = net.JoinHostPort(r.host, strconv.Itoa(r.port))
	}
	if r.readOnlyPort != 0 {
		r.ReadOnlyAddress = net.JoinHostPort(r.host, strconv.Itoa(r.readOnlyPort))
	}
}

func (r *Remote) checkCiphers(s *setting) {
	for _, name := range r.ciphers {
		i := slices.IndexFunc(tls.CipherSuites(), func(c *tls.CipherSuite) bool { return c.Name == name })
		if i < 0 {
			var known []string
			for _, c := range tls.CipherSuites() {
				if slices.Contains(c.SupportedVersions, tls.VersionTLS12) {
					known = append(known, c.Name)
				}
			}
			s.fail(": %q is unknown or insecure; supported are %s", name, strings.Join(known, ", "))
			continue
		}
		r.CipherSuites = append(r.CipherSuites, tls.CipherSuites()[i].ID)
	}
}
