import 'reflect-metadata'
import {
  BadRequestException,
  Body,
  Controller,
  Get,
  Module,
  NotFoundException,
  Param,
  ParseIntPipe,
  Post,
  Put,
  Query,
} from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import Database from 'better-sqlite3'

/**
 * NestJS on its default platform, Express, with `better-sqlite3`. Each write is one durable transaction. The decorators
 * are called as functions, because Node.js does not support their syntax. Environment: PEER_PORT and PEER_DATABASE.
 */
const { PEER_PORT, PEER_DATABASE } = process.env
const db = new Database(PEER_DATABASE)
db.pragma('journal_mode = wal')
db.pragma('synchronous = full')

const columns = 'id, name, price, revision, created_at as "createdAt", updated_at as "updatedAt"'
const find = db.prepare(`select ${columns} from products where id = ?`)
const list = db.prepare(`select ${columns} from products where id > ? order by id limit ?`)
const insert = db.prepare(
  `insert into products (name, price, revision, created_at, updated_at) values (?, ?, 1, ?, ?) returning ${columns}`,
)
const update = db.prepare(
  `update products set name = ?, price = ?, revision = revision + 1, updated_at = ? where id = ? returning ${columns}`,
)

function checked({ name, price }) {
  if (typeof name !== 'string' || name === '' || typeof price !== 'number') throw new BadRequestException()
  return { name, price }
}

function present(row) {
  if (row === undefined) throw new NotFoundException()
  return row
}

class Products {
  read(id) {
    return present(find.get(id))
  }
  list(limit, after = 0) {
    return list.all(after, limit)
  }
  create(body) {
    const { name, price } = checked(body)
    const now = new Date().toISOString()
    return insert.get(name, price, now, now)
  }
  replace(id, body) {
    const { name, price } = checked(body)
    return present(update.get(name, price, new Date().toISOString(), id))
  }
}

/** Declares a method as the handler of a route, with a decorator for each parameter. */
function route(method, decorator, parameters) {
  decorator(Products.prototype, method, Object.getOwnPropertyDescriptor(Products.prototype, method))
  for (const [at, parameter] of parameters.entries()) parameter(Products.prototype, method, at)
}
const id = Param('id', ParseIntPipe)
const optional = new ParseIntPipe({ optional: true })
route('read', Get(':id'), [id])
route('list', Get(), [Query('limit', ParseIntPipe), Query('after', optional)])
route('create', Post(), [Body()])
route('replace', Put(':id'), [id, Body()])
Controller('products')(Products)

class App {}
Module({ controllers: [Products] })(App)

const app = await NestFactory.create(App, { logger: false })
await app.listen(Number(PEER_PORT), '127.0.0.1')
process.on('SIGTERM', () => process.exit(0))
process.send?.('ready')
