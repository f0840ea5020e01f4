import 'reflect-metadata'
import {
  Body,
  Controller,
  DefaultValuePipe,
  Get,
  Injectable,
  Module,
  NotFoundException,
  Param,
  ParseIntPipe,
  Post,
  Put,
  Query,
  Res,
  ValidationPipe,
} from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import Database from 'better-sqlite3'
import { IsNumber, IsString, Length, Min } from 'class-validator'
import { nextLink, productsIn } from './products.ts'

/**
 * Products on NestJS with its default adapter, Express, and better-sqlite3, as its documentation describes it: a provider,
 * a controller, pipes, and a validated class for the body. Environment: PEER_PORT and PEER_DATABASE.
 */
const { PEER_PORT, PEER_DATABASE = '' } = process.env

@Injectable()
class ProductsService {
  readonly products = productsIn(new Database(PEER_DATABASE))
}

class ProductBody {
  @IsString()
  @Length(1, 200)
  name!: string

  @IsNumber()
  @Min(0)
  price!: number
}

interface Headers {
  setHeader: (name: string, value: string) => unknown
}

function found<Value>(value: Value | undefined): Value {
  if (value === undefined) throw new NotFoundException('There is no product with this id')
  return value
}

@Controller('products')
class ProductsController {
  private readonly products: ProductsService['products']

  constructor(service: ProductsService) {
    this.products = service.products
  }

  @Get(':id')
  read(@Param('id', ParseIntPipe) id: number) {
    return found(this.products.read(id))
  }

  @Get()
  list(
    @Query('limit', new DefaultValuePipe(20), ParseIntPipe) limit: number,
    @Query('after', new DefaultValuePipe(0), ParseIntPipe) after: number,
    @Res({ passthrough: true }) response: Headers,
  ) {
    const page = this.products.list(after, Math.min(limit, 100))
    const link = nextLink(page, limit)
    if (link) response.setHeader('Link', link)
    return page
  }

  @Post()
  create(@Body() body: ProductBody, @Res({ passthrough: true }) response: Headers) {
    const created = this.products.create(body)
    response.setHeader('Location', `/products/${created.id}`)
    return created
  }

  @Put(':id')
  replace(@Param('id', ParseIntPipe) id: number, @Body() body: ProductBody) {
    return found(this.products.replace(id, body))
  }
}

@Module({ controllers: [ProductsController], providers: [ProductsService] })
class ProductsModule {}

const app = await NestFactory.create(ProductsModule, { logger: ['error', 'warn'] })
app.useGlobalPipes(new ValidationPipe({ whitelist: true }))
await app.listen(Number(PEER_PORT), '127.0.0.1')
process.send?.('ready')
