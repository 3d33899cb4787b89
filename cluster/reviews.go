package cluster

import (
	"context"
	"errors"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// ReviewToken asks the API server for the user of a token; false if it is not
// valid. It fails at once while the API server is unreachable.
func (a *Adapter) ReviewToken(ctx context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	if err := a.checkReachable(); err != nil {
		return authenticationv1.UserInfo{}, false, err
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	err := a.client.authentication.Post().Resource("tokenreviews").Body(review).Do(ctx).Into(review)
	if err != nil {
		return authenticationv1.UserInfo{}, false, err
	}
	if review.Status.Error != "" && !review.Status.Authenticated {
		a.cfg.Log.Debug("Token not accepted by the cluster", "err", review.Status.Error)
	}
	return review.Status.User, review.Status.Authenticated, nil
}

// ReviewAccess asks the API server whether a user may do something, and why not.
// It fails at once while the API server is unreachable.
func (a *Adapter) ReviewAccess(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (allowed bool,
	why string, err error) {
	if err := a.checkReachable(); err != nil {
		return false, "", err
	}
	review := &authorizationv1.SubjectAccessReview{Spec: spec}
	if err := a.client.authorization.Post().Resource("subjectaccessreviews").Body(review).Do(ctx).Into(
		review); err != nil {
		return false, "", err
	}
	return review.Status.Allowed && !review.Status.Denied, review.Status.Reason, nil
}

// checkReachable returns why the API server cannot be asked for reviews.
func (a *Adapter) checkReachable() error {
	select {
	case <-a.certificates.ready:
	default:
		return errors.New("this node has no client certificate yet")
	}
	if wait := a.connection.retryAfter(); wait > 0 {
		return errUnreachable
	}
	return nil
}
