import type { KeyObject } from 'node:crypto'
import { createPrivateKey, createPublicKey, generateKeyPairSync, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'

/** A private key and a certificate for the matching public key. */
export interface Pair {
  key: KeyObject
  certificate: X509Certificate
}

/** Creates an EC P-256 key. */
export function newTlsKey(): KeyObject {
  return generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
}

/** Encodes a private key as PKCS #8 PEM. */
export function pem(key: KeyObject): string {
  return key.export({ type: 'pkcs8', format: 'pem' }).toString()
}

/** Returns a key's public half as SPKI. */
export function publicBytes(key: KeyObject): Uint8Array<ArrayBuffer> {
  return new Uint8Array(createPublicKey(key).export({ type: 'spki', format: 'der' }))
}

/**
 * Parses a certificate and its private key. Throws an Error that identifies the file that cannot be parsed, or both
 * files if they do not match.
 */
export function checkedPair(certFile: string, certText: string, keyFile: string, keyText: string): Pair {
  const certificate = parsed(certFile, 'PEM certificate', () => new X509Certificate(certText))
  const key = parsedKey(keyFile, keyText)
  if (!certificate.checkPrivateKey(key)) throw new Error(`${keyFile} is not the private key of ${certFile}`)
  return { key, certificate }
}

/** Parses a PEM private key; errors include the file name. */
export function parsedKey(file: string, text: string): KeyObject {
  return parsed(file, 'unencrypted PEM private key', () => createPrivateKey(text))
}

/** Reads a text file; errors include the file name. */
export function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    throw new Error(`${file} cannot be read: ${(cause as Error).message}`, { cause })
  }
}

function parsed<T>(file: string, expected: string, parse: () => T): T {
  try {
    return parse()
  } catch (cause) {
    throw new Error(`${file} contains no ${expected}`, { cause })
  }
}
