package config

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/podstead/podstead/config/kubeletconfig"
)

// Reviews are the settings of authentication and authorization of clients by the cluster's
// API server. They have no effect without a cluster.
type Reviews struct {
	// Tokens enables TokenReviews, Rights enables SubjectAccessReviews.
	Tokens, Rights bool
	// TokenTTL, AllowedTTL and DeniedTTL are the cache durations of the results.
	TokenTTL, AllowedTTL, DeniedTTL time.Duration

	mode string
	// set are the fields of the config file that enable reviews.
	set []string
}

// The kubelet's authorization modes.
const (
	modeWebhook     = "Webhook"
	modeAlwaysAllow = "AlwaysAllow"
)

func (r *Reviews) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&r.Tokens, "authentication-token-webhook", true, "with --kubeconfig, authenticate bearer tokens with the API server")
	f.DurationVar(&r.TokenTTL, "authentication-token-webhook-cache-ttl", 2*time.Minute, "`time` to cache results of token authentication")
	f.StringVar(&r.mode, "authorization-mode", modeWebhook, "authorization mode: Webhook authorizes clients with the API server, with --kubeconfig; AlwaysAllow does not, and only clients with a role have access")
	f.DurationVar(&r.AllowedTTL, "authorization-webhook-cache-authorized-ttl", 5*time.Minute, "`time` to cache allowed results of the API server")
	f.DurationVar(&r.DeniedTTL, "authorization-webhook-cache-unauthorized-ttl", 30*time.Second, "`time` to cache denied results of the API server")
}

// merge applies the settings of the file that no flag sets.
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
