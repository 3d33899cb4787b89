package config

import "time"

// Reviews are the settings of authentication and authorization of clients by the cluster's
// API server. They have no effect without a cluster.
type Reviews struct {
	// Tokens enables TokenReviews, Rights enables SubjectAccessReviews.
	Tokens, Rights bool
	// TokenTTL, AllowedTTL and DeniedTTL are the cache durations of the results.
	TokenTTL, AllowedTTL, DeniedTTL time.Duration

	mode string
}

// The kubelet's authorization modes.
const (
	modeWebhook     = "Webhook"
	modeAlwaysAllow = "AlwaysAllow"
)

func (o *Options) reviewSettings() []setting {
	r := &o.Remote.Reviews
	ttl := func(flag, field string, to *time.Duration, base time.Duration, help string) setting {
		return setting{flag: flag, field: field, value: duration(to, base), check: atLeast(to, 0, "must be 0 or more"),
			cluster: true, unasked: always, help: help}
	}
	rows := []setting{
		{flag: "authentication-token-webhook", field: "authentication.webhook.enabled", value: boolean(&r.Tokens, true),
			cluster: true, unasked: func() bool { return !r.Tokens },
			shown: func(RuntimeDefaults) any { return o.joins() && r.Tokens },
			help:  "with --kubeconfig, authenticate bearer tokens with the API server"},
		ttl("authentication-token-webhook-cache-ttl", "authentication.webhook.cacheTTL", &r.TokenTTL, 2*time.Minute,
			"`time` to cache results of token authentication"),
		{flag: "authorization-mode", field: "authorization.mode",
			value: choice(&r.mode, modeWebhook, "=%q: must be Webhook or AlwaysAllow", modeAlwaysAllow, modeWebhook),
			check: func(*setting) { r.Rights = r.mode == modeWebhook }, cluster: true,
			unasked: func() bool { return r.mode != modeWebhook },
			help: "authorization mode: Webhook authorizes clients with the API server, with --kubeconfig; AlwaysAllow does " +
				"not, and only clients with a role have access"},
		ttl("authorization-webhook-cache-authorized-ttl", "authorization.webhook.cacheAuthorizedTTL", &r.AllowedTTL,
			5*time.Minute, "`time` to cache allowed results of the API server"),
		ttl("authorization-webhook-cache-unauthorized-ttl", "authorization.webhook.cacheUnauthorizedTTL", &r.DeniedTTL,
			30*time.Second, "`time` to cache denied results of the API server"),
	}
	rows[1].shown = func(RuntimeDefaults) any { return r.TokenTTL.String() }
	return rows
}
