package access

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// Reviewer asks a cluster about callers that are unknown on this node.
type Reviewer interface {
	// ReviewToken returns the owner of a token, false if the token is unknown.
	ReviewToken(ctx context.Context, token string) (authenticationv1.UserInfo, bool, error)
	// ReviewAccess returns whether access is allowed, and the reason if it is denied.
	ReviewAccess(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (allowed bool, reason string,
		err error)
}

// ReviewConfig configures the reviews.
type ReviewConfig struct {
	// Reviewer sends the reviews; nil disables them.
	Reviewer Reviewer
	// Node is the node name in access reviews.
	Node string
	// Authentication reviews tokens, Authorization the access of users. Without
	// Authorization users need a role.
	Authentication, Authorization bool
	// How long results are cached: token reviews, allowed and denied access reviews.
	TokenTTL, AllowedTTL, DeniedTTL time.Duration
}

// ErrClusterUnavailable is wrapped by errors of a cluster that cannot be asked.
var ErrClusterUnavailable = errors.New("the API server of the cluster cannot be asked")

// reviewTimeout limits one review. The caller waits for an API server that may not
// answer.
const reviewTimeout = 5 * time.Second

// authenticated is the group of all authenticated users.
const authenticated = "system:authenticated"

// Reviews are the reviews of callers by a cluster, cached for some time.
type Reviews struct {
	cfg       ReviewConfig
	tokens    *cache[tokenReview]
	decisions *cache[decision]
}

type tokenReview struct {
	user  authenticationv1.UserInfo
	known bool
}

type decision struct {
	allowed bool
	reason  string
}

// NewReviews returns nil if there is no Reviewer.
func NewReviews(cfg ReviewConfig) *Reviews {
	if cfg.Reviewer == nil {
		return nil
	}
	return &Reviews{cfg: cfg, tokens: newCache[tokenReview](), decisions: newCache[decision]()}
}

// authenticate returns the owner of a token.
func (r *Reviews) authenticate(ctx context.Context, token string) (Caller, error) {
	response, err := r.tokens.get(ctx, sha256.Sum256([]byte(token)),
		func(ctx context.Context) (tokenReview, time.Duration, error) {
			user, known, err := r.cfg.Reviewer.ReviewToken(ctx, token)
			return tokenReview{user, known}, r.cfg.TokenTTL, err
		})
	switch {
	case err != nil:
		return Caller{}, fmt.Errorf("failed to review the token: %w: %w", ErrClusterUnavailable, err)
	case !response.known:
		return Caller{}, errors.New("the cluster does not know the token")
	}
	return r.caller(response.user, classesOfGroups(withoutRoles(response.user.Groups), r.cfg.Authorization)), nil
}

// withoutRoles returns the groups that grant no role of this node. Roles are granted by
// certificates and the token file of the node: a user who can choose groups in the
// cluster must not be able to grant them.
func withoutRoles(groups []string) []string {
	return slices.DeleteFunc(slices.Clone(groups), func(g string) bool { return strings.HasPrefix(g, RolePrefix) })
}

// caller returns a caller that the cluster may authorize.
func (r *Reviews) caller(user authenticationv1.UserInfo, classes Class) Caller {
	c := Caller{User: user.Username, Classes: classes}
	if r.cfg.Authorization {
		if !slices.Contains(user.Groups, authenticated) {
			user.Groups = append(slices.Clone(user.Groups), authenticated)
		}
		c.subject, c.reviews = &user, r
	}
	return c
}

// authorize reviews the permissions that a kubelet checks, one after the other. The
// reason of a denial comes from the last review.
func (r *Reviews) authorize(ctx context.Context, user *authenticationv1.UserInfo,
	attributes []authorizationv1.ResourceAttributes) (bool, string, error) {
	var last decision
	for i := range attributes {
		spec := authorizationv1.SubjectAccessReviewSpec{
			ResourceAttributes: &attributes[i], User: user.Username, UID: user.UID, Groups: user.Groups,
			Extra: map[string]authorizationv1.ExtraValue{},
		}
		for name, values := range user.Extra {
			spec.Extra[name] = authorizationv1.ExtraValue(values)
		}
		text, err := json.Marshal(spec)
		if err != nil {
			return false, "", err
		}
		last, err = r.decisions.get(ctx, sha256.Sum256(text), func(ctx context.Context) (decision, time.Duration, error) {
			allowed, reason, err := r.cfg.Reviewer.ReviewAccess(ctx, spec)
			ttl := r.cfg.DeniedTTL
			if allowed {
				ttl = r.cfg.AllowedTTL
			}
			return decision{allowed, reason}, ttl, err
		})
		switch {
		case err != nil:
			return false, "", fmt.Errorf("failed to review the access of user %q: %w: %w", user.Username, ErrClusterUnavailable,
				err)
		case last.allowed:
			return true, "", nil
		}
	}
	required := attributes[0]
	reason := fmt.Sprintf("user %q cannot %s nodes/%s of node %s in the cluster", user.Username, required.Verb,
		required.Subresource, required.Name)
	if last.reason != "" {
		reason += ": " + last.reason
	}
	return false, reason, nil
}

// resourceAttributes returns the permissions of which a kubelet requires at least one: that
// for the subresource of the path, and the general one for nodes/proxy. A session requires
// the verb create with every method, so that read access does not give access to a
// container.
func resourceAttributes(method, path string, class Class, node string) (all []authorizationv1.ResourceAttributes) {
	verb := map[string]string{"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch",
		"DELETE": "delete"}[method]
	if class == Exec {
		verb = "create"
	}
	for _, sub := range subresources(path) {
		all = append(all, authorizationv1.ResourceAttributes{Verb: verb, Version: "v1", Resource: "nodes", Subresource: sub,
			Name: node})
	}
	return all
}

// subresources returns the subresources of a node for a path, by the kubelet's table.
func subresources(path string) []string {
	switch firstElement(path) {
	case "stats":
		return []string{"stats"}
	case "metrics":
		return []string{"metrics"}
	case "logs":
		return []string{"log"}
	case "checkpoint":
		return []string{"checkpoint"}
	case "pods", "runningpods":
		return []string{"pods", "proxy"}
	case "healthz", "livez", "readyz":
		return []string{"healthz", "proxy"}
	case "configz":
		return []string{"configz", "proxy"}
	}
	return []string{"proxy"}
}

// firstElement returns the first element of a path.
func firstElement(path string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return name
}
