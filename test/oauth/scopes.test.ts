import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { builtIn } from '../../src/catalog/service.ts'
import { scopeDescriptions } from '../../src/oauth/tokens/scopes.ts'

describe('scopeDescriptions', () => {
  const { openid, offline_access: offline, 'reports:read': reports } = builtIn.scopes as Record<string, string>
  const cases: [names: string, lines: (string | undefined)[]][] = [
    ['openid', [openid]],
    ['openid profile email', [openid]],
    ['email', [openid]],
    ['reports:read profile offline_access email openid', [reports, openid, offline]],
    ['reports:read unknown', [reports]],
    ['', []],
  ]
  for (const [names, lines] of cases) {
    it(`returns a line for each known scope in '${names}', but a single line for openid, profile and email`, () => {
      assert.deepEqual(scopeDescriptions(builtIn.scopes, names.split(' ')), lines)
    })
  }
})
