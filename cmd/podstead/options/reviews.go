package options

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/podstead/podstead/cmd/podstead/kubeletconfig"
)

// Reviews say what a cluster is asked about those who ask at the port. Without a
// cluster they mean nothing.
type Reviews struct {
	// Tokens asks whose tokens are, Rights what users may do here.
	Tokens, Rights bool
	// How long answers count.
	TokenTTL, AllowedTTL, DeniedTTL time.Duration

	mode string
	// set are the fields of the config file that ask for it.
	set []string
}

// The modes of authorization, as the kubelet's.
const (
	modeWebhook     = "Webhook"
	modeAlwaysAllow = "AlwaysAllow"
)

func (r *Reviews) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&r.Tokens, "authentication-token-webhook", true, "with --kubeconfig, ask the API server whose a bearer token is")
	f.DurationVar(&r.TokenTTL, "authentication-token-webhook-cache-ttl", 2*time.Minute, "`time` that such an answer counts")
	f.StringVar(&r.mode, "authorization-mode", modeWebhook, "Webhook, with --kubeconfig, asks the API server what users may do here; AlwaysAllow does not, and lets in those with a role only")
	f.DurationVar(&r.AllowedTTL, "authorization-webhook-cache-authorized-ttl", 5*time.Minute, "`time` that a user may do what the API server has allowed")
	f.DurationVar(&r.DeniedTTL, "authorization-webhook-cache-unauthorized-ttl", 30*time.Second, "`time` that a user may not do what it has denied")
}

// merge takes from the file what no flag says.
func (r *Reviews) merge(c *kubeletconfig.Reviews, f *pflag.FlagSet) {
	take(f, "authentication-token-webhook", c.Tokens, &r.Tokens)
	take(f, "authentication-token-webhook-cache-ttl", c.TokenTTL, &r.TokenTTL)
	take(f, "authorization-webhook-cache-authorized-ttl", c.AllowedTTL, &r.AllowedTTL)
	take(f, "authorization-webhook-cache-unauthorized-ttl", c.DeniedTTL, &r.DeniedTTL)
	if c.Mode != "" && !f.Changed("authorization-mode") {
		r.mode = c.Mode
	}
	if c.Tokens != nil && *c.Tokens {
		r.set = append(r.set, "authentication.webhook.enabled")
	}
	if c.Mode == modeWebhook {
		r.set = append(r.set, "authorization.mode")
	}
}

func (r *Reviews) check() error {
	if r.mode != modeWebhook && r.mode != modeAlwaysAllow {
		return fmt.Errorf("--authorization-mode=%q: must be Webhook or AlwaysAllow", r.mode)
	}
	r.Rights = r.mode == modeWebhook
	for flag, d := range map[string]time.Duration{
		"authentication-token-webhook-cache-ttl": r.TokenTTL, "authorization-webhook-cache-authorized-ttl": r.AllowedTTL, "authorization-webhook-cache-unauthorized-ttl": r.DeniedTTL,
	} {
		if d < 0 {
			return fmt.Errorf("--%s=%s: must be 0 or more", flag, d)
		}
	}
	return nil
}
