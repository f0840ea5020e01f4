import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, it } from 'node:test'
import { calculateJwkThumbprint } from 'jose'
import { signingKeys } from '../../src/oauth/keys/signing-keys.ts'
import type { Database } from '../../src/storage/database.ts'
import { sealer as makeSealer } from '../../src/storage/encryption.ts'
import { openDatabase } from '../../src/storage/open.ts'
import { forEachEngine } from '../support/engines.ts'
import { sealer } from './support.ts'

forEachEngine((engine) => {
  let db: Database
  before(async () => {
    db = await engine.database()
  })
  after(() => db.close())
  const sources = () => ({ db, sealer, now: Date.now })
  // Creating an RSA key takes a hundred times as long as creating an EC key.
  const quick = () => ({ ...sources(), algorithm: 'ES256' as const })

  it('signingKeys creates one key if two processes start concurrently on an empty database', async () => {
    const other = await openDatabase(db.url)
    const [mine, theirs] = await Promise.all([signingKeys(quick()), signingKeys({ ...quick(), db: other })])
    await other.close()
    assert.equal(mine.jwks.keys.length, 1)
    assert.deepEqual(theirs.jwks, mine.jwks)
    assert.deepEqual(theirs.cookieKeys, mine.cookieKeys)
  })

  it('signingKeys loads the same keys on every later start', async () => {
    const [first, second] = [await signingKeys(sources()), await signingKeys(sources())]
    assert.deepEqual(second.jwks, first.jwks)
    assert.deepEqual(second.cookieKeys, first.cookieKeys)
  })

  it('signingKeys creates one key if ten processes start concurrently after the last key was deleted', async () => {
    await signingKeys(quick())
    await db.write((tx) => tx.deleteFrom('signingKeys').execute())
    const starts = await Promise.all(Array.from({ length: 10 }, () => signingKeys(quick())))
    assert.equal(new Set(starts.map(({ jwks }) => JSON.stringify(jwks))).size, 1)
    assert.equal(starts[0]?.jwks.keys.length, 1)
  })

  it('signingKeys creates a 2048-bit RS256 key with its thumbprint as kid, and returns its public half', async () => {
    await db.write((tx) => tx.deleteFrom('signingKeys').execute())
    const { jwks, publicKeys } = await signingKeys(sources())
    const [key] = jwks.keys
    assert.equal(key?.alg, 'RS256')
    assert.equal(Buffer.from(key?.n as string, 'base64url').length, 256)
    assert.equal(key?.kid, await calculateJwkThumbprint(key ?? {}))
    assert.equal(publicKeys.get(key?.kid as string)?.type, 'public')
  })

  it('signingKeys stores no private key or cookie key in plain text', async () => {
    const rows = await db.read.selectFrom('signingKeys').selectAll().execute()
    const settings = await db.read.selectFrom('settings').selectAll().execute()
    const { jwks, cookieKeys } = await signingKeys(sources())
    const stored = JSON.stringify([rows, settings])
    assert.ok(!stored.includes(jwks.keys[0]?.d as string) && !stored.includes(cookieKeys[0] as string))
  })

  it('signingKeys throws an error that names the stored key if the master key is different', async () => {
    const stranger = makeSealer(Buffer.alloc(32, 8), randomBytes)
    await assert.rejects(signingKeys({ ...sources(), sealer: stranger }), /signing_keys:\S+ cannot be decrypted/)
  })
})
