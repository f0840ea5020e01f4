import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { FastifyRequest } from 'fastify'
import { type Bucket, buckets } from '../../src/rate-limits/account.ts'
import { consumeLocal } from '../../src/rate-limits/fixed-window.ts'
import { limitOf } from '../../src/rate-limits/limit.ts'

const general = limitOf('default', { calls: 5, seconds: 60 })

function remembering(trustedProxies: string[] = []) {
  const clock = { now: 1_000_000 }
  const quotas = { requests: 10, reports: null }
  const options = { general, anonymous: general, pace: null, quotas, trustedProxies, now: () => clock.now, max: 10 }
  const { of } = buckets(options)
  const from = (remoteAddress: string) => request({ remoteAddress })
  const request = (socket: object, caller: unknown = null) =>
    of({ apiKey: null, caller, raw: { socket, headers: {} } } as unknown as FastifyRequest)
  const call = (account: Bucket) => consumeLocal(account.windows, general, clock.now)
  const client = (clientId: string) => request({}, { caller: { clientId, subject: clientId, scopes: new Set() } })
  return { clock, from, request, call, client }
}

const remembered = (all: Bucket[]) => all.filter(({ isEvicted }) => !isEvicted).length

describe('rate-limit accounts in memory', () => {
  it('are limited in number, however many addresses send requests (T-RES-03)', () => {
    const { from, call } = remembering()
    const all = Array.from({ length: 1_000 }, (_, at) => from(`198.51.${at >> 8}.${at & 255}`))
    for (const one of all) call(one)
    assert.ok(remembered(all) <= 10)
  })

  it('are evicted first if their windows have ended', () => {
    const { clock, from, call } = remembering()
    const old = Array.from({ length: 5 }, (_, at) => from(`198.51.100.${at}`))
    for (const one of old) call(one)
    clock.now += 60_000
    const young = Array.from({ length: 5 }, (_, at) => from(`203.0.113.${at}`))
    for (const one of young) call(one)
    for (let at = 0; at < 5; at++) call(from(`192.0.2.${at}`))
    assert.equal(remembered(old), 0)
    assert.equal(remembered(young), 5)
  })

  it('are never evicted to make room for addresses if they belong to clients', () => {
    const { from, call, client } = remembering()
    const known = Array.from({ length: 5 }, (_, at) => client(`cli_${at}`))
    for (const one of known) call(one)
    for (let at = 0; at < 500; at++) call(from(`198.51.${at >> 8}.${at & 255}`))
    assert.equal(remembered(known), 5)
    assert.equal(client('cli_0'), known[0])
  })

  it('are not evicted while they have unsaved usage', () => {
    const { client } = remembering()
    const held = client('cli_held')
    assert.ok(held.quotas?.requests)
    held.quotas.requests.unsaved = 1
    for (let at = 0; at < 100; at++) client(`cli_${at}`)
    assert.equal(client('cli_held'), held)
  })

  it('are looked up again after an eviction, even on the same connection', () => {
    const { from, request } = remembering()
    const socket = { remoteAddress: '198.51.100.1' }
    const before = request(socket)
    for (let at = 0; at < 50; at++) from(`203.0.113.${at}`)
    assert.ok(before.isEvicted)
    const after = request(socket)
    assert.ok(after !== before && !after.isEvicted)
  })

  it('have distinct keys for clients and subjects whose names contain separators or are long', () => {
    const { request } = remembering()
    const of = (clientId: string, subject: string) => request({}, { caller: { clientId, subject, scopes: new Set() } })
    assert.notEqual(of('a', 'b,c').key, of('a,b', 'c').key)
    const long = of('x'.repeat(300), 'y')
    assert.ok(long.key.length < 100 && long.key !== of('x'.repeat(301), 'y').key)
  })
})
