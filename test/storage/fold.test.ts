import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { caseFold } from '../../src/storage/rows/page-query.ts'

describe('caseFold', () => {
  it('maps texts that differ only in case or Unicode normalization form to the same text', () => {
    for (const [one, other] of [
      ['Füller', 'FU\u0308LLER'],
      ['ＰＥＮ', 'pen'],
      ['ﬁne', 'FINE'],
      ['\u212bngstrom', 'ångström'.replace('ö', 'o')],
      ['①', '1'],
      ['K', '\u212a'],
    ]) {
      assert.equal(caseFold(one as string), caseFold(other as string), one)
    }
  })

  it('maps texts with any other difference to different texts', () => {
    for (const [one, other] of [
      ['a', 'ä'],
      ['pen', 'pens'],
      ['a b', 'ab'],
    ]) {
      assert.notEqual(caseFold(one as string), caseFold(other as string))
    }
  })

  it('is idempotent', () => {
    for (const text of ['Straße', 'İstanbul', 'ΣΑΣ', '㎒', 'ǅ', 'ﷺ', '\u1e9e'])
      assert.equal(caseFold(caseFold(text)), caseFold(text), text)
  })
})
