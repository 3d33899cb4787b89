package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podstead/podstead/cluster/certificate"
)

// asked returns the request in the API, nil if there is none.
func (r *clusterHarness) asked(name string) *certificatesv1.CertificateSigningRequest {
	r.t.Helper()
	csr := &certificatesv1.CertificateSigningRequest{}
	if !r.get(r.t, "certificatesigningrequests", "", name, csr) {
		return nil
	}
	return csr
}

// signed runs a certificate request until the test ends it.
type signed struct {
	cert []byte
	err  error
}

func (r *clusterHarness) sign(ctx context.Context, q certificate.Request) <-chan signed {
	s := &certificateRequests{
		Adapter: r.a, signer: certificatesv1.KubeAPIServerClientKubeletSignerName,
		usages:    []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		requester: func() (*client, error) { return r.a.client, nil },
	}
	done := make(chan signed, 1)
	go func() {
		cert, err := s.Sign(ctx, q)
		done <- signed{cert, err}
	}()
	synctest.Wait()
	return done
}

// aRequest requests a certificate for a user.
func aRequest(t *testing.T, user string) certificate.Request {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: user}},
		key)
	if err != nil {
		t.Fatal(err)
	}
	return certificate.Request{Name: "node-csr-1",
		PEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})}
}

func TestSigningWaitsForTheSignature(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		r.setAway(true)
		q := aRequest(t, "me")
		done := r.sign(t.Context(), q)
		pass(time.Hour)
		if n := len(r.requests()); n > 1000 {
			t.Errorf("%d requests to an unreachable API server", n)
		}
		r.setAway(false)
		pass(10 * time.Second)
		csr := r.asked("node-csr-1")
		if csr == nil || csr.Spec.SignerName != "kubernetes.io/kube-apiserver-client-kubelet" ||
			string(csr.Spec.Request) != string(q.PEM) ||
			len(csr.Spec.Usages) != 1 || csr.Spec.Usages[0] != "client auth" {
			t.Fatalf("requested %v", csr)
		}
		// No signer responds, and nothing loops. A request that is
		// garbage-collected is created again.
		r.requests()
		pass(time.Hour)
		if n := len(r.requests()); n < 24 || n > 100 {
			t.Errorf("%d requests in an hour of waiting", n)
		}
		r.remove("certificatesigningrequests", "", "node-csr-1")
		pass(time.Second)
		if csr = r.asked("node-csr-1"); csr == nil {
			t.Fatalf("not created again: %v", r.requests())
		}
		csr.Status.Certificate = []byte("certificate")
		r.replace(t, csr)
		synctest.Wait()
		select {
		case s := <-done:
			if string(s.cert) != "certificate" || s.err != nil {
				t.Errorf("%s, %v", s.cert, s.err)
			}
		default:
			t.Error("the signature is not noticed")
		}
	})
}

func TestSigningReportsWhyItIsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		done := r.sign(ctx, aRequest(t, "me"))
		csr := r.asked("node-csr-1")
		csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
			{Type: certificatesv1.CertificateDenied, Status: "True", Reason: "No", Message: "not you"}}
		r.replace(t, csr)
		if s := <-done; !errors.Is(s.err, certificate.ErrRefused) || !strings.Contains(s.err.Error(), "not you") {
			t.Errorf("%s, %v", s.cert, s.err)
		}
		// The request is found again after a restart, with other
		// content.
		if s := <-r.sign(ctx, aRequest(t, "other")); !errors.Is(s.err, certificate.ErrRefused) {
			t.Errorf("%s, %v", s.cert, s.err)
		}
	})
}

func TestSigningAsksRarelyWhoForbidsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		r.react = func(q fakeRequest) (runtime.Object, error) {
			return nil, apierrors.NewForbidden(schema.GroupResource{Resource: q.resource}, "", errors.New("no"))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if s := <-r.sign(ctx, aRequest(t, "me")); !errors.Is(s.err, context.DeadlineExceeded) {
			t.Errorf("%s, %v", s.cert, s.err)
		}
		if n := len(r.requests()); n < 50 || n > 100 {
			t.Errorf("%d requests in an hour", n)
		}
	})
}

// A node without a certificate sends no other requests until it has one.
func TestNodeWithoutCertificateWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca, dir := newTestCA(t), t.TempDir()
		r := newClusterHarness(t)
		r.a.cfg.Kubeconfig = dir + "/config"
		r.a.cfg.Certificates = Certificates{Directory: dir, Rotate: true}
		id := &identity{store: certificate.Store{Dir: dir, Name: clientName}}
		c := newCertificates(r.a, id)
		c.transport = &rotatingTransport{newTransport: func() *http.Transport { return &http.Transport{} }}
		r.a.certificates = c
		r.run("web", "one")
		r.start()
		defer func() { r.end() }()
		pass(time.Minute)
		for _, q := range r.requests() {
			if q.resource != "certificatesigningrequests" {
				t.Fatalf("requested %v", q)
			}
		}
		var list []string
		r.fakeAPI.mu.Lock()
		for at := range r.objects {
			list = append(list, at)
		}
		r.fakeAPI.mu.Unlock()
		if len(list) != 1 {
			t.Fatalf("objects: %v", list)
		}
		name := list[0][strings.Index(list[0], "/")+1:]
		csr := r.asked(name)
		block, _ := pem.Decode(csr.Spec.Request)
		parsed, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprint(parsed.Subject.CommonName, parsed.Subject.Organization,
			csr.Spec.Usages); text != "system:node:edge[system:nodes] [digital signature client auth]" {
			t.Errorf("requested %s", text)
		}
		csr.Status.Certificate = ca.sign(parsed.PublicKey, parsed.Subject.CommonName, time.Now(),
			time.Now().Add(100*time.Minute))
		r.replace(t, csr)
		pass(time.Second)
		if r.mirror("web") == nil || c.client.Certificate() == nil {
			t.Error("it does not continue")
		}
		pass(95 * time.Minute)
		renewed := 0
		for _, q := range r.requests() {
			if q.resource == "certificatesigningrequests" && q.verb == "POST" {
				renewed++
			}
		}
		if renewed == 0 {
			t.Error("not renewed")
		}
	})
}
