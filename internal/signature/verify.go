package signature

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// MaxSize is the size in bytes that no signature exceeds.
const MaxSize = 256 << 10

var (
	errFormat = errors.New("is neither a signature in base64 nor a Sigstore bundle")
	errWrong  = errors.New("fits none of the keys: the content was changed after it was signed, or it was signed with " +
		"another key")
)

// bundle is the part of a Sigstore bundle that is verified; see
// github.com/sigstore/protobuf-specs. Other parts report when and by whom it was signed.
type bundle struct {
	MediaType        string `json:"mediaType"`
	MessageSignature *struct {
		Signature []byte `json:"signature"`
	} `json:"messageSignature"`
	Envelope *envelope `json:"dsseEnvelope"`
}

// envelope is one of DSSE; see github.com/secure-systems-lab/dsse.
type envelope struct {
	Payload     []byte `json:"payload"`
	PayloadType string `json:"payloadType"`
	Signatures  []struct {
		Sig []byte `json:"sig"`
	} `json:"signatures"`
}

// VerifyBlob verifies the signature of bytes, as cosign sign-blob writes it: in base64, or a
// bundle.
func (k Keys) VerifyBlob(data, signature []byte) error {
	digest := sha256.Sum256(data)
	signature = bytes.TrimSpace(signature)
	if !bytes.HasPrefix(signature, []byte("{")) {
		return k.verifyText(digest[:], string(signature))
	}
	var b bundle
	if err := json.Unmarshal(signature, &b); err != nil || b.MessageSignature == nil {
		return errFormat
	}
	if !k.verify(digest[:], b.MessageSignature.Signature) {
		return errWrong
	}
	return nil
}

func (k Keys) verifyText(digest []byte, text string) error {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	switch {
	case err != nil || len(raw) == 0:
		return errFormat
	case !k.verify(digest, raw):
		return errWrong
	}
	return nil
}

// VerifyPayload verifies a signature in base64 of a simple signing payload, as cosign sign
// makes it, and that the payload is about the artifact with this digest.
func (k Keys) VerifyPayload(digest string, payload []byte, signature string) error {
	sum := sha256.Sum256(payload)
	if err := k.verifyText(sum[:], signature); err != nil {
		return err
	}
	var signed struct {
		Critical struct {
			Type  string `json:"type"`
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
		} `json:"critical"`
	}
	if err := json.Unmarshal(payload, &signed); err != nil {
		return errors.New("has a payload that is not JSON")
	}
	if signed.Critical.Type != "cosign container image signature" {
		return fmt.Errorf("has a payload of the type %q, not that of cosign sign", signed.Critical.Type)
	}
	return aboutDigest(digest, signed.Critical.Image.Digest)
}

// The types of what a bundle reports about an artifact.
const (
	payloadInToto = "application/vnd.in-toto+json"
	predicateSign = "https://sigstore.dev/cosign/sign/v1"
)

// VerifyStatement verifies a bundle with the statement that an artifact was signed, as cosign
// sign makes it, and that the statement is about the artifact with this digest.
func (k Keys) VerifyStatement(digest string, data []byte) error {
	var b bundle
	if err := json.Unmarshal(data, &b); err != nil || b.Envelope == nil {
		return errFormat
	}
	e, valid := b.Envelope, false
	sum := sha256.Sum256(fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(e.PayloadType), e.PayloadType, len(e.Payload),
		e.Payload))
	for _, s := range e.Signatures {
		valid = valid || k.verify(sum[:], s.Sig)
	}
	if !valid {
		return errWrong
	}
	var statement struct {
		Subject []struct {
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
		PredicateType string `json:"predicateType"`
	}
	if err := json.Unmarshal(e.Payload, &statement); err != nil || e.PayloadType != payloadInToto {
		return errors.New("has a payload that is no in-toto statement")
	}
	// A key may sign other statements, such as that the artifact was scanned.
	if statement.PredicateType != predicateSign {
		return fmt.Errorf("has a statement of the type %q, not that it was signed", statement.PredicateType)
	}
	about := ""
	for _, s := range statement.Subject {
		if about = "sha256:" + s.Digest["sha256"]; about == digest {
			return nil
		}
	}
	return aboutDigest(digest, about)
}

func aboutDigest(digest, signed string) error {
	if raw, err := hex.DecodeString(strings.TrimPrefix(digest, "sha256:")); err != nil || len(raw) != sha256.Size ||
		digest != signed {
		return fmt.Errorf("is that of another artifact, %s", signed)
	}
	return nil
}
