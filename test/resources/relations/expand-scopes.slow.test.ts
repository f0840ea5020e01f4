import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { users } from '../../../src/catalog/users.ts'
import { service } from '../../../src/definition/service.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Title } from '../../../src/resources/field-types.ts'
import { Ref } from '../../../src/resources/relations/ref.ts'
import { appOn, type TestApp } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

const topics = collection({ path: '/topics', noun: 'topic', publicRead: true, body: Type.Object({ name: Title }) })
const posts = collection({
  path: '/posts',
  noun: 'post',
  body: Type.Object({ topicId: Ref(topics), authorId: Ref(users), title: Title }),
})
const links = collection({
  path: '/links',
  noun: 'link',
  publicRead: true,
  body: Type.Object({ postId: Ref(posts), topicId: Ref(topics) }),
})
const resources = [users, topics, posts, links]
const definition = service({ resources, versions: { v1: [topics, links], v2: resources } })
const scopes = 'users:read users:write topics:write posts:read posts:write links:write'

forEachEngine((engine) => {
  describe('relations in public resources and in versions', () => {
    const service = appOn(engine, { definition })
    const send: TestApp['send'] = (request) => service.send({ scopes, ...request })
    const create = async (url: string, payload: object) => {
      const answer = await send({ method: 'POST', url, payload })
      assert.equal(answer.statusCode, 201, answer.body)
      return answer.json()
    }

    it('200 without a token for public related rows; for non-public ones, 401 without a token and 403 without the scope', async () => {
      const author = await create('/v2/users', { name: 'Ada', email: 'ada@example.com' })
      const topic = await create('/topics', { name: 'News' })
      const post = await create('/v2/posts', { topicId: topic.id, authorId: author.id, title: 'T' })
      const link = await create('/v2/links', { postId: post.id, topicId: topic.id })
      const read = (url: string, scopes: string | null = null) => send({ url, scopes })
      const open = await read('/links?expand=topic')
      assert.deepEqual([open.statusCode, open.json()], [200, [{ ...link, topic }]])
      assert.match(String(open.headers['cache-control']), /^public/)
      for (const url of ['/v2/links?expand=post', `/v2/links/${link.id}?expand=post`, `/v2/posts/${post.id}/links`]) {
        const anonymous = await read(url)
        assert.deepEqual([anonymous.statusCode, anonymous.json().errorCode], [401, 'AUTH_REQUIRED'])
        assert.equal((await read(url, 'topics:write')).statusCode, 403)
        const shown = await read(url, 'posts:read')
        assert.equal(shown.statusCode, 200)
        assert.match(String(shown.headers['cache-control']), /^private/)
      }
      const { items } = (await send({ url: '/v2/posts?expand=author' })).json()
      assert.deepEqual(items, [{ ...post, author: { id: author.id, name: 'Ada', email: 'ada@example.com' } }])
      const inUse = await send({ method: 'DELETE', url: `/v2/users/${author.id}` })
      assert.deepEqual([inUse.statusCode, inUse.json().errorCode], [409, 'RESOURCE_IN_USE'])
    })

    it('400 for `expand` and 404 for the nested list if the version does not serve the other resource', async () => {
      const refused = await send({ url: '/links?expand=post' })
      assert.deepEqual(
        [refused.statusCode, refused.json().errors[0].message],
        [400, "names 'post', which is no relation of /links: use one of topic"],
      )
      assert.equal((await send({ url: '/topics/1/posts' })).statusCode, 404)
      assert.equal((await send({ url: '/v2/topics/1/posts' })).statusCode, 200)
      assert.equal((await send({ url: '/topics/1/links' })).statusCode, 200)
    })

    it('409 for a row in use, 422 for a dangling reference, even if the version lacks the other resource', async () => {
      const topic = await create('/topics', { name: 'Used' })
      const author = await create('/v2/users', { name: 'Bob', email: 'bob@example.com' })
      await create('/v2/posts', { topicId: topic.id, authorId: author.id, title: 'T' })
      assert.equal((await send({ method: 'DELETE', url: `/topics/${topic.id}` })).statusCode, 409)
      const payload = { postId: 999_999, topicId: topic.id }
      assert.equal((await send({ method: 'POST', url: '/links', payload })).statusCode, 422)
    })
  })
})
