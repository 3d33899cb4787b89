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

// Reviewer asks a cluster about those whom this box does not know.
type Reviewer interface {
	// ReviewToken says whose token it is, false if nobody's.
	ReviewToken(ctx context.Context, token string) (authenticationv1.UserInfo, bool, error)
	// ReviewAccess says whether somebody may do something, and why not.
	ReviewAccess(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (allowed bool, why string, err error)
}

// ReviewConfig says what a cluster is asked.
type ReviewConfig struct {
	// Reviewer asks it; nil asks nothing.
	Reviewer Reviewer
	// Node is the name of the node that rights are about.
	Node string
	// Tokens asks whose tokens are, Rights what users may do here. Without
	// Rights only those may do something who have a role.
	Authentication, Authorization bool
	// How long answers count: about tokens, and about rights that somebody has or
	// lacks.
	TokenTTL, AllowedTTL, DeniedTTL time.Duration
}

// ErrCluster is wrapped if the cluster cannot tell.
var ErrClusterUnavailable = errors.New("the cluster's API server cannot be asked")

// reviewTimeout bounds one question. Who waits here waits for an API server that
// may be silent.
const reviewTimeout = 5 * time.Second

// authenticated is the group of everybody who is known.
const authenticated = "system:authenticated"

// Reviews are what a cluster says of those who ask here, kept for a while.
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
	why     string
}

// NewReviews makes one that knows nothing yet; nil if there is nobody to ask.
func NewReviews(cfg ReviewConfig) *Reviews {
	if cfg.Reviewer == nil {
		return nil
	}
	return &Reviews{cfg: cfg, tokens: newCache[tokenReview](), decisions: newCache[decision]()}
}

// token is whose token it is.
func (r *Reviews) authenticate(ctx context.Context, token string) (Caller, error) {
	answer, err := r.tokens.get(ctx, sha256.Sum256([]byte(token)), func(ctx context.Context) (tokenReview, time.Duration, error) {
		user, known, err := r.cfg.Reviewer.ReviewToken(ctx, token)
		return tokenReview{user, known}, r.cfg.TokenTTL, err
	})
	switch {
	case err != nil:
		return Caller{}, fmt.Errorf("whose token it is: %w: %w", ErrClusterUnavailable, err)
	case !answer.known:
		return Caller{}, errors.New("the cluster does not know the token")
	}
	return r.caller(answer.user, classesOfGroups(answer.user.Groups, r.cfg.Authorization)), nil
}

// caller is somebody whose rights the cluster knows.
func (r *Reviews) caller(user authenticationv1.UserInfo, may Class) Caller {
	c := Caller{User: user.Username, Classes: may}
	if r.cfg.Authorization {
		if !slices.Contains(user.Groups, authenticated) {
			user.Groups = append(slices.Clone(user.Groups), authenticated)
		}
		c.subject, c.reviews = &user, r
	}
	return c
}

// allowed asks for the rights that a kubelet asks for, in turn; the last answer
// says why not.
func (r *Reviews) authorize(ctx context.Context, user *authenticationv1.UserInfo, attributes []authorizationv1.ResourceAttributes) (bool, string, error) {
	var last decision
	for i := range attributes {
		spec := authorizationv1.SubjectAccessReviewSpec{
			ResourceAttributes: &attributes[i], User: user.Username, UID: user.UID, Groups: user.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		}
		for name, values := range user.Extra {
			spec.Extra[name] = authorizationv1.ExtraValue(values)
		}
		text, err := json.Marshal(spec)
		if err != nil {
			return false, "", err
		}
		last, err = r.decisions.get(ctx, sha256.Sum256(text), func(ctx context.Context) (decision, time.Duration, error) {
			allowed, why, err := r.cfg.Reviewer.ReviewAccess(ctx, spec)
			ttl := r.cfg.DeniedTTL
			if allowed {
				ttl = r.cfg.AllowedTTL
			}
			return decision{allowed, why}, ttl, err
		})
		switch {
		case err != nil:
			return false, "", fmt.Errorf("what %q may do: %w: %w", user.Username, ErrClusterUnavailable, err)
		case last.allowed:
			return true, "", nil
		}
	}
	needed := attributes[0]
	why := fmt.Sprintf("user %q may not %s nodes/%s of node %s in the cluster", user.Username, needed.Verb, needed.Subresource, needed.Name)
	if last.why != "" {
		why += ": " + last.why
	}
	return false, why, nil
}

// attributesOf are the rights of which a kubelet asks for one at least: that to
// what the path names, and the wide one to the node's proxy. A session needs the
// right to create, whichever method begins it: who may read only is not let into
// a container.
func resourceAttributes(method, path string, class Class, node string) (all []authorizationv1.ResourceAttributes) {
	verb := map[string]string{"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[method]
	if class == Exec {
		verb = "create"
	}
	for _, sub := range subresources(path) {
		all = append(all, authorizationv1.ResourceAttributes{Verb: verb, Version: "v1", Resource: "nodes", Subresource: sub, Name: node})
	}
	return all
}

// subresources of a node by the first element of a path, as the kubelet has them.
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
	case "healthz":
		return []string{"healthz", "proxy"}
	case "configz":
		return []string{"configz", "proxy"}
	}
	return []string{"proxy"}
}

// first is the first element of a path.
func firstElement(path string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return name
}
