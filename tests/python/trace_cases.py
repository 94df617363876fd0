"""Modules and functions that are traced for inputs of one batch and length, and called with another.

Run with torch, this prints what torch's traces do (`trace_expected.json`):

    TORCH tests/python/trace_cases.py > tests/python/trace_expected.json

A case is an expression of a module or function and one of its inputs, in which `n` is the batch and `l` a length.
`r(...)` are random numbers, `ids(limit, ...)` random whole numbers.
"""
import json
import warnings

N_, L_ = (2, 8), (3, 11)  # batch and length of the trace, and of the other call

CASES = """
Linear(4, 3) | r(n, l, 4)
Bilinear(4, 3, 2) | r(n, l, 4), r(n, l, 3)
Identity() | r(n, l)
Flatten() | r(n, 3, 4)
Unflatten(1, (2, 3)) | r(n, 6, l)
Conv1d(3, 4, 3, padding='same') | r(n, 3, l)
Conv1d(3, 4, 3, padding=1, padding_mode='circular') | r(n, 3, l)
Conv2d(3, 4, 3, padding=1, padding_mode='reflect') | r(n, 3, l, l)
Conv2d(3, 4, 3) | r(n, 3, l, l)
Conv3d(2, 3, 3) | r(n, 2, l, 5, l)
ConvTranspose1d(3, 4, 3) | r(n, 3, l)
ConvTranspose2d(3, 4, 3, stride=2) | r(n, 3, l, l)
ConvTranspose3d(2, 3, 3) | r(n, 2, 3, l, l)
Unfold(2) | r(n, 3, l, l)
Fold((4, 4), 2) | r(n, 8, 9)
MaxPool1d(2) | r(n, 3, l)
MaxPool2d(2, return_indices=True) | r(n, 3, l, l)
MaxPool3d(2) | r(n, 3, l, 4, l)
AvgPool1d(2) | r(n, 3, l)
AvgPool2d(2) | r(n, 3, l, l)
AvgPool3d(2) | r(n, 3, l, 4, l)
LPPool1d(2, 2) | r(n, 3, l)
LPPool2d(2, 2) | r(n, 3, l, l)
LPPool3d(2, 2) | r(n, 3, l, 4, l)
AdaptiveAvgPool1d(2) | r(n, 3, l)
AdaptiveAvgPool2d((2, None)) | r(n, 3, l, l)
AdaptiveAvgPool2d((None, 3)) | r(n, 3, l, l)
AdaptiveAvgPool2d(2) | r(n, 3, l, l)
AdaptiveAvgPool3d((2, None, 2)) | r(n, 3, 4, l, l)
AdaptiveMaxPool1d(2) | r(n, 3, l)
AdaptiveMaxPool2d((2, None)) | r(n, 3, l, l)
AdaptiveMaxPool2d((2, None), return_indices=True) | r(n, 3, l, l)
AdaptiveMaxPool3d((None, 2, None)) | r(n, 3, l, l, l)
ZeroPad1d(1) | r(n, 3, l)
ZeroPad2d(1) | r(n, 3, l, l)
ZeroPad3d(1) | r(n, 3, l, l, l)
ConstantPad1d(1, 2.0) | r(n, 3, l)
ConstantPad2d(1, 2.0) | r(n, 3, l, l)
ConstantPad3d(1, 2.0) | r(n, 3, l, l, l)
ReflectionPad1d(1) | r(n, 3, l)
ReflectionPad2d(1) | r(n, 3, l, l)
ReflectionPad3d(1) | r(n, 3, l, l, l)
ReplicationPad1d(1) | r(n, 3, l)
ReplicationPad2d(1) | r(n, 3, l, l)
ReplicationPad3d(1) | r(n, 3, l, l, l)
CircularPad1d(1) | r(n, 3, l)
CircularPad2d(1) | r(n, 3, l, l)
CircularPad3d(1) | r(n, 3, l, l, l)
BatchNorm1d(3) | r(n, 3, l)
BatchNorm1d(3) | r(n, 3)
BatchNorm2d(3) | r(n, 3, l, l)
BatchNorm3d(3) | r(n, 3, l, 2, l)
BatchNorm2d(3).train() | r(n, 3, l, l)
BatchNorm2d(3, track_running_stats=False) | r(n, 3, l, l)
SyncBatchNorm(3) | r(n, 3, l, l)
InstanceNorm1d(3) | r(n, 3, l)
InstanceNorm2d(3, affine=True) | r(n, 3, l, l)
InstanceNorm3d(3) | r(n, 3, l, 2, l)
InstanceNorm2d(3, track_running_stats=True) | r(n, 3, l, l)
GroupNorm(3, 6) | r(n, 6, l)
LayerNorm(4) | r(n, l, 4)
RMSNorm(4) | r(n, l, 4)
LocalResponseNorm(2) | r(n, 3, l, l)
LocalResponseNorm(2) | r(n, 3, l)
CrossMapLRN2d(2) | r(n, 3, l, l)
Embedding(9, 4) | ids(9, n, l)
EmbeddingBag(9, 4) | ids(9, n, l)
EmbeddingBag(9, 4, mode='sum') | ids(9, n, l), None, r(n, l)
EmbeddingBag(9, 4, mode='max') | ids(9, n * l), torch.tensor([0, 3])
Dropout() | r(n, l)
Dropout2d() | r(n, 3, l, l)
AlphaDropout() | r(n, l)
FeatureAlphaDropout() | r(n, 3, l)
Upsample(scale_factor=2) | r(n, 3, l, l)
Upsample(scale_factor=2, mode='bilinear') | r(n, 3, l, l)
Upsample(scale_factor=1.5, mode='bilinear') | r(n, 3, l, l)
Upsample(size=(5, 6)) | r(n, 3, l, l)
UpsamplingNearest2d(scale_factor=2) | r(n, 3, l, l)
UpsamplingBilinear2d(scale_factor=2) | r(n, 3, l, l)
PixelShuffle(2) | r(n, 8, l, l)
PixelUnshuffle(2) | r(n, 3, 2 * l, 2 * l)
ChannelShuffle(2) | r(n, 4, l, l)
CosineSimilarity() | r(n, l, 4), r(n, l, 4)
PairwiseDistance() | r(n, 4), r(n, 4)
ReLU() | r(n, l)
PReLU(3) | r(n, 3, l)
GLU() | r(n, 2 * l)
Softmax(1) | r(n, l)
Softmax2d() | r(n, 3, l, l)
LogSoftmax(1) | r(n, l)
Softmin(1) | r(n, l)
Threshold(0.1, 2.0) | r(n, l)
Hardtanh() | r(n, l)
GELU() | r(n, l)
MultiheadAttention(4, 2, batch_first=True) | r(n, l, 4), r(n, l, 4), r(n, l, 4)
MultiheadAttention(4, 2) | r(l, n, 4), r(l + 1, n, 4), r(l + 1, n, 4)
MultiheadAttention(4, 2).train() | r(l, n, 4), r(l, n, 4), r(l, n, 4)
MultiheadAttention(4, 2, kdim=3, vdim=5) | r(l, n, 4), r(l, n, 3), r(l, n, 5)
MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True) | r(l, n, 4), r(l, n, 4), r(l, n, 4)
MultiheadAttention(4, 2, batch_first=True) | r(n, l, 4), r(n, l, 4), r(n, l, 4), r(n, l) > 1
Calls(lambda net, q, m: net(q, q, q, need_weights=False)[0], MultiheadAttention(4, 2, batch_first=True)) | r(n, l, 4), r(l, l)
Calls(lambda net, q, m: net(q, q, q, attn_mask=m)[0], MultiheadAttention(4, 2, batch_first=True)) | r(n, l, 4), r(l, l)
MultiheadAttention(4, 2) | r(l, 4), r(l, 4), r(l, 4)
TransformerEncoderLayer(4, 2, 8, batch_first=True) | r(n, l, 4)
TransformerEncoderLayer(4, 2, 8, dropout=0.0).train() | r(l, n, 4)
TransformerEncoderLayer(4, 2, 8) | r(l, n, 4), r(l, l), r(n, l) > 1
TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2) | r(n, l, 4)
TransformerDecoderLayer(4, 2, 8) | r(l, n, 4), r(l + 1, n, 4)
TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8), 2) | r(l, n, 4), r(l + 1, n, 4), r(l, l)
Transformer(4, 2, 1, 1, 8) | r(l, n, 4), r(l + 1, n, 4)
Transformer(4, 2, 1, 1, 8, batch_first=True) | r(n, l, 4), r(n, l + 1, 4)
LSTM(3, 4, 2, batch_first=True) | r(n, l, 3)
LSTM(3, 4, bidirectional=True, proj_size=2) | r(l, n, 3)
LSTM(3, 4) | r(l, 3)
GRU(3, 4) | r(l, n, 3)
GRU(3, 4) | r(l, n, 3), r(1, n, 4)
RNN(3, 4, batch_first=True) | r(n, l, 3)
LSTMCell(3, 4) | r(n, 3)
GRUCell(3, 4) | r(n, 3)
RNNCell(3, 4) | r(n, 3)
L1Loss() | r(n, l), r(n, l)
MSELoss() | r(n, l), r(n, l)
SmoothL1Loss() | r(n, l), r(n, l)
HuberLoss() | r(n, l), r(n, l)
CrossEntropyLoss() | r(n, 5, l), ids(5, n, l)
CrossEntropyLoss(label_smoothing=0.1) | r(n, 5), ids(5, n)
NLLLoss() | r(n, 5, l), ids(5, n, l)
KLDivLoss(reduction='batchmean') | r(n, l), r(n, l)
KLDivLoss(reduction='mean') | r(n, l), r(n, l)
BCELoss() | r(n, l).sigmoid(), r(n, l).sigmoid()
BCEWithLogitsLoss() | r(n, l), r(n, l).sigmoid()
PoissonNLLLoss(full=True) | r(n, l), r(n, l).exp()
GaussianNLLLoss() | r(n, l), r(n, l), r(n, l).exp()
GaussianNLLLoss() | r(n, l), r(n, l), r(n, 1).exp()
GaussianNLLLoss() | r(n, l), r(n, l), r(n).exp()
HingeEmbeddingLoss() | r(n, l), r(n, l).sign()
MultiLabelMarginLoss() | r(n, 4), ids(4, n, 4)
MultiLabelSoftMarginLoss() | r(n, l), r(n, l).sigmoid()
MultiMarginLoss() | r(n, 5), ids(5, n)
SoftMarginLoss() | r(n, l), r(n, l).sign()
CosineEmbeddingLoss() | r(n, l), r(n, l), r(n).sign()
MarginRankingLoss() | r(n), r(n), r(n).sign()
TripletMarginLoss() | r(n, l), r(n, l), r(n, l)
TripletMarginWithDistanceLoss() | r(n, l), r(n, l), r(n, l)
CTCLoss() | r(l, n, 5).log_softmax(2), ids(4, n, 3) + 1, torch.full((n,), l), torch.full((n,), 3)
AdaptiveLogSoftmaxWithLoss(4, 9, [3, 6]).log_prob | r(n, 4)
F.adaptive_avg_pool1d | r(n, 3, l), 2
lambda x: F.adaptive_avg_pool2d(x, (None, 2)) | r(n, 3, l, l)
lambda x: F.adaptive_avg_pool3d(x, (None, 2, None)) | r(n, 3, l, l, l)
lambda x: F.adaptive_max_pool2d(x, (None, 2)) | r(n, 3, l, l)
lambda x: F.adaptive_max_pool3d(x, (None, 2, None), True) | r(n, 3, l, l, l)
lambda x: F.affine_grid(x, (2, 1, 3, 3)) | r(2, 2, 3) * n
lambda x, y: F.affine_grid(x, y.size()) | r(n, 2, 3), r(n, 1, l, l)
lambda x, y: F.grid_sample(x, F.affine_grid(y, x.shape, align_corners=False), align_corners=False) | r(n, 1, l, l), r(n, 2, 3)
lambda x: F.batch_norm(x, None, None, training=True) | r(n, 3, l)
lambda x: F.instance_norm(x) | r(n, 3, l)
lambda x: F.group_norm(x, 3) | r(n, 3, l)
lambda x: F.layer_norm(x, x.shape[1:]) | r(n, 3, l)
lambda x: F.rms_norm(x, x.shape[1:]) | r(n, 3, l)
lambda x: F.local_response_norm(x, 2) | r(n, 3, l)
lambda x: F.normalize(x) | r(n, l)
lambda x: F.one_hot(x, 5) | ids(5, n, l)
lambda x: F.one_hot(x) | ids(5, n, l)
lambda x: F.pad(x, (1, 2)) | r(n, l)
lambda x: F.pad(x, (1, 2), 'circular') | r(n, 3, l)
lambda x: F.pad(x, (1, 2, 0, 1), 'reflect') | r(n, 3, l, l)
lambda x: F.pad(x, (1, x.size(1))) | r(n, l)
lambda x: F.interpolate(x, scale_factor=2) | r(n, 3, l)
lambda x: F.interpolate(x, scale_factor=1.5, mode='linear') | r(n, 3, l)
lambda x: F.interpolate(x, scale_factor=1.5, mode='linear', recompute_scale_factor=True) | r(n, 3, l)
lambda x: F.interpolate(x, scale_factor=2, mode='area') | r(n, 3, l, l)
lambda x: F.interpolate(x, scale_factor=2, mode='bicubic') | r(n, 3, l, l)
lambda x: F.interpolate(x, scale_factor=0.5, mode='bilinear', antialias=True) | r(n, 3, l, l)
lambda x: F.interpolate(x, size=5) | r(n, 3, l)
lambda x: F.interpolate(x, size=x.shape[2:]) | r(n, 3, l)
lambda x: F.interpolate(x, size=(x.shape[2] * 2, x.shape[3] + 1)) | r(n, 3, l, l)
lambda x: F.upsample(x, scale_factor=2) | r(n, 3, l)
lambda x: F.pixel_shuffle(x, 2) | r(n, 4, l, l)
lambda x: F.pixel_unshuffle(x, 2) | r(n, 4, 2 * l, 2 * l)
lambda x: F.channel_shuffle(x, 2) | r(n, 4, l, l)
lambda x: F.native_channel_shuffle(x, 2) | r(n, 4, l, l)
lambda x: F.unfold(x, 2) | r(n, 3, l, l)
lambda x: F.fold(x, (4, 4), 2) | r(n, 8, 9)
lambda x: F.max_pool1d(x, 2) | r(n, 3, l)
lambda x: F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2) | r(n, 3, 2 * l)
lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2) | r(n, 3, 2 * l, 2 * l)
lambda x: F.max_unpool3d(*F.max_pool3d(x, 2, return_indices=True), 2) | r(n, 3, 4, 2 * l, 2 * l)
lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2, output_size=x.size()) | r(n, 3, l, l)
lambda x: F.lp_pool1d(x, 2, 2) | r(n, 3, l)
lambda x: F.lp_pool2d(x, 2, 2) | r(n, 3, l, l)
lambda x: F.lp_pool3d(x, 2, 2) | r(n, 3, l, l, l)
lambda x, w: F.conv_transpose2d(x, w, stride=2) | r(n, 3, l, l), r(3, 2, 3, 3)
lambda x: F.softmax(x) | r(n, l)
lambda x: F.gumbel_softmax(x, dim=0).sum() | r(n, l)
lambda x: F.scaled_dot_product_attention(x, x, x) | r(n, 2, l, 4)
lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True) | r(n, 2, l, 4)
lambda x, m: F.scaled_dot_product_attention(x, x, x, m) | r(n, 2, l, 4), r(l, l)
lambda x, y: F.cosine_similarity(x, y) | r(n, l), r(n, l)
lambda x, y: F.pairwise_distance(x, y) | r(n, l), r(n, l)
lambda x: F.pdist(x) | r(n, l)
lambda x, w: F.embedding(x, w) | ids(5, n, l), r(5, 4)
lambda x, w: F.embedding_bag(x, w) | ids(5, n, l), r(5, 4)
lambda x, w: F.embedding_bag(x, w, mode='sum') | ids(5, n, l), r(5, 4)
lambda x, w, o: F.embedding_bag(x, w, o, include_last_offset=True) | ids(5, 6), r(5, 4), torch.tensor([0, 2, 6])
lambda x, y: F.kl_div(x, y, reduction='batchmean') | r(n, l), r(n, l)
lambda x, y: F.mse_loss(x, y) | r(n, l), r(n, l)
lambda x, y: F.mse_loss(x, y, weight=x) | r(n, l), r(n, l)
lambda x, y: F.mse_loss(x, y) | r(n, l), r(n, 1)
lambda x, y: F.cross_entropy(x, y) | r(n, 5), ids(5, n)
lambda x, y: F.cross_entropy(x, y) | r(n, 5, l), ids(5, n, l)
lambda x, y: F.gaussian_nll_loss(x, x, y) | r(n, l), r(n).exp()
lambda x, y: F.multilabel_soft_margin_loss(x, y) | r(n, l), r(n, l).sigmoid()
lambda x, y, z: F.triplet_margin_with_distance_loss(x, y, z) | r(n, l), r(n, l), r(n, l)
lambda x, y: F.multi_margin_loss(x, y) | r(n, 5), ids(5, n)
lambda x, y: F.binary_cross_entropy(x, x, weight=y) | r(n, l).sigmoid(), r(l)
lambda x: F.glu(x) | r(n, 2 * l)
lambda x: F.fractional_max_pool2d(x, 2, output_ratio=0.5).shape[0] * x | r(n, 3, l, l)
lambda x: F.bilinear(x, x, torch.ones(2, 3, 3)) | r(n, l, 3)
lambda x: x.view(x.size(0), -1) | r(n, 3, l)
lambda x: x * torch.tensor(x.size(0)) | r(n, l)
lambda x: x * torch.tensor(x.size()).prod() | r(n, l)
lambda x: x * torch.tensor([x.size(0), 2.0])[0] | r(n, l)
lambda x: x * torch.as_tensor(x.size(0)) | r(n, l)
lambda x: x * torch.scalar_tensor(x.size(0)) | r(n, l)
lambda x: x * torch.full((1,), x.size(0)) | r(n, l)
lambda x: x + torch.arange(x.size(1)) | r(n, l)
lambda x: x + torch.zeros(x.shape) | r(n, l)
lambda x: x + torch.ones(*x.shape) | r(n, l)
lambda x: x + torch.rand(x.size(0), 1) * 0 | r(n, l)
lambda x: x + torch.linspace(0, 1, x.size(1)) | r(n, l)
lambda x: x / x.size(0) | r(n, l)
lambda x: x * x.size(0) ** 0.5 | r(n, l)
lambda x: x[:, :x.size(1) // 2] | r(n, l)
lambda x: x.expand(x.size(0), 2, x.size(1)) | r(n, 1, l)
lambda x: x.new_zeros(x.size(0), 2) | r(n, l)
lambda x: x.reshape(-1, x.numel() // x.size(0)) | r(n, l)
lambda x: torch.cat([x, x.new_zeros(x.shape[0], 1)], 1) | r(n, l)
lambda x: torch.nn.utils.rnn.pad_sequence([x, x[:1]]) | r(n, l)
lambda x: torch.nn.utils.rnn.pad_sequence([x, x[:1]], batch_first=True) | r(n, l)
lambda x: x.split(x.size(1) // 2, 1)[0] | r(n, l)
lambda x: x.chunk(2, 1)[1] | r(n, l)
lambda x: torch.stack([x[i] for i in range(2)]) | r(n, l)
lambda x: torch.stack(list(x)) | r(n, l)
lambda x: torch.meshgrid(torch.arange(x.size(0)), torch.arange(x.size(1)), indexing='ij')[0] | r(n, l)
lambda x: torch.block_diag(x, x) | r(n, l)
lambda x: torch.cartesian_prod(x[0], x[1]) | r(n, l)
lambda x: torch.cdist(x, x) | r(n, l)
lambda x: torch.einsum('bi,bj->bij', x, x) | r(n, l)
lambda x: torch.tensordot(x, x, dims=([1], [1])) | r(n, l)
lambda x: torch.unique(x) | ids(3, n, l)
lambda x: torch.stft(x, 4, return_complex=False, window=torch.ones(4)) | r(n, 4 * l)
lambda x: torch.istft(torch.stft(x, 4, return_complex=True, window=torch.ones(4)), 4, window=torch.ones(4)) | r(n, 4 * l)
lambda x: torch.norm(x, dim=1) | r(n, l)
lambda x: torch.norm(x, 'nuc') | r(n, l)
lambda x: torch.broadcast_tensors(x, x[:1])[1] | r(n, l)
lambda x: x.unflatten(1, (2, -1)) | r(n, 2 * l)
lambda x: torch.atleast_3d(x) | r(n, l)
lambda x: torch.split(x, [3, x.size(1) - 3], 1)[1] | r(n, l)
lambda x: torch.tril_indices(x.size(0), x.size(1)) | r(n, l)
lambda x: x.masked_fill(torch.ones(x.size(1), x.size(1)).triu(1).bool(), 0.0) | r(n, l, l)
lambda x: x.lu()[0] if False else torch.lu_unpack(*torch.linalg.lu_factor(x))[2] | r(n, l, l)
lambda x: nn.functional.unfold(x, (1, x.size(3))) | r(n, 3, l, l)
Calls(lambda net, x: net(nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2])))[0].data, LSTM(3, 4)) | r(l, 2, 3)
Calls(lambda net, x, s: net(nn.utils.rnn.pack_padded_sequence(x, s))[0].data, LSTM(3, 4)) | r(l, n, 3), torch.arange(l, l - n, -1)
Calls(lambda net, x, s: nn.utils.rnn.pad_packed_sequence(net(nn.utils.rnn.pack_padded_sequence(x, s))[0])[0], GRU(3, 4)) | r(l, n, 3), torch.arange(l, l - n, -1)
Calls(lambda net, x, s: nn.utils.rnn.pad_packed_sequence(net(nn.utils.rnn.pack_padded_sequence(x, s, True, False))[0], True)[0], GRU(3, 4, batch_first=True)) | r(n, l, 3), torch.arange(l - n + 1, l + 1).flip(0)[torch.randperm(n)]
Dropout1d() | r(n, 3, l)
Dropout3d() | r(n, 3, l, 2, l)
MaxUnpool1d(2) | r(n, 3, l), torch.arange(0, 2 * l, 2).expand(n, 3, l)
MaxUnpool2d(2) | r(n, 3, l, 2), torch.arange(0, 4 * l, 2).view(l, 2).expand(n, 3, l, 2)
MaxUnpool3d(2) | r(n, 3, l, 2, 2), torch.arange(0, 8 * l, 2).view(l, 2, 2).expand(n, 3, l, 2, 2)
FractionalMaxPool2d(2, output_size=3) | r(n, 3, l, l)
FractionalMaxPool3d(2, output_size=3) | r(n, 3, l, l, l)
NLLLoss2d() | r(n, 5, l, l), ids(5, n, l, l)
Sequential(nn.Linear(4, 4), nn.ReLU()) | r(n, l, 4)
Calls(lambda nets, x: nets[0](x) + nets[1](x), ModuleList([nn.Linear(4, 4), nn.LayerNorm(4)])) | r(n, l, 4)
lambda x: F.adaptive_max_pool1d(x, 2, return_indices=True) | r(n, 3, l)
lambda x: F.avg_pool1d(x, 2) | r(n, 3, l)
lambda x: F.avg_pool2d(x, (2, x.size(3))) | r(n, 3, l, l)
lambda x: F.avg_pool3d(x, 2) | r(n, 3, l, 4, l)
lambda x: F.max_pool1d_with_indices(x, 2) | r(n, 3, l)
lambda x: F.max_pool2d_with_indices(x, (x.size(2), 1)) | r(n, 3, l, l)
lambda x: F.max_pool3d_with_indices(x, 2) | r(n, 3, l, 4, l)
lambda x: F.fractional_max_pool3d(x, 2, 3).shape[0] * x.sum() | r(n, 3, l, l, l)
lambda x: F.conv1d(x, torch.ones(2, 3, 2), padding='same') | r(n, 3, l)
lambda x, w: F.conv2d(x, w) | r(n, 3, l, l), r(2, 3, 2, 2)
lambda x, w: F.conv3d(x, w) | r(n, 3, l, l, l), r(2, 3, 2, 2, 2)
lambda x, w: F.conv_tbc(x, w, torch.ones(2)) | r(l, n, 3), r(2, 3, 2)
lambda x, w: F.conv_transpose1d(x, w) | r(n, 3, l), r(3, 2, 3)
lambda x, w: F.conv_transpose3d(x, w) | r(n, 3, l, l, l), r(3, 2, 2, 2, 2)
lambda x: F.alpha_dropout(x) | r(n, l)
lambda x: F.feature_alpha_dropout(x) | r(n, l)
lambda x: F.dropout1d(x, training=False) | r(n, 3, l)
lambda x: F.dropout2d(x, training=False) | r(n, 3, l, l)
lambda x: F.dropout3d(x, training=False) | r(n, 3, l, l, l)
lambda x, y: F.binary_cross_entropy_with_logits(x, y, y) | r(n, l), r(n, l).sigmoid()
lambda x, y: F.cosine_embedding_loss(x, x, y) | r(n, l), r(n).sign()
lambda x, y: F.ctc_loss(x, y, torch.full((x.size(1),), x.size(0)), torch.full((y.size(0),), y.size(1))) | r(l, n, 5).log_softmax(2), ids(4, n, 3) + 1
lambda x, y: F.hinge_embedding_loss(x, y) | r(n, l), r(n, l).sign()
lambda x, y: F.huber_loss(x, y) | r(n, l), r(n, l)
lambda x, y: F.huber_loss(x, y, weight=x) | r(n, l), r(n, l)
lambda x, y: F.l1_loss(x, y) | r(n, l), r(n, l)
lambda x, y: F.smooth_l1_loss(x, y, beta=0.0) | r(n, l), r(n, l)
lambda x, y: F.margin_ranking_loss(x, x, y) | r(n), r(n).sign()
lambda x, y: F.multilabel_margin_loss(x, y) | r(n, 4), ids(4, n, 4)
lambda x, y: F.nll_loss(x, y) | r(n, 5, l), ids(5, n, l)
lambda x, y: F.poisson_nll_loss(x, y) | r(n, l), r(n, l).exp()
lambda x, y: F.soft_margin_loss(x, y) | r(n, l), r(n, l).sign()
lambda x, y, z: F.triplet_margin_loss(x, y, z, swap=True) | r(n, l), r(n, l), r(n, l)
lambda x: F.prelu(x, torch.ones(3)) | r(n, 3, l)
lambda x: F.rrelu(x) | r(n, l)
lambda x: F.threshold(x, 0.1, 2.0) | r(n, l)
lambda x: F.upsample_nearest(x, scale_factor=2) | r(n, 3, l, l)
lambda x: F.upsample_bilinear(x, scale_factor=2) | r(n, 3, l, l)
lambda x, w: F.multi_head_attention_forward(x, x, x, 4, 2, w, None, None, None, False, 0.0, torch.ones(4, 4), None)[0] | r(l, n, 4), r(12, 4)
"""


# Of each element.
MODULES = """CELU ELU Hardshrink Hardsigmoid Hardswish LeakyReLU LogSigmoid Mish RReLU
ReLU6 SELU SiLU Sigmoid Softplus Softshrink Softsign Tanh Tanhshrink"""
FUNCTIONS = """celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu
relu6 selu silu softmin softplus softshrink softsign tanh tanhshrink"""


def cases():
    return CASES.strip().splitlines() + [f"{name}() | r(n, l)" for name in MODULES.split()] + \
        [f"lambda x: F.{name}(x) | r(n, l)" for name in FUNCTIONS.split()]


def _flat(x):
    return [t for item in x for t in _flat(item)] if isinstance(x, (list, tuple)) else [x]


def _same(torch, a, b):
    a, b = _flat(a), _flat(b)
    return len(a) == len(b) and all(
        x is y is None or (x.shape == y.shape and x.dtype == y.dtype and torch.allclose(x, y, rtol=1e-4, atol=1e-5)) for x, y in zip(a, b))


def _calls(nn):
    class Calls(nn.Module):
        """Calls a module as a function says."""

        def __init__(self, call, net):
            super().__init__()
            self.call, self.net = call, net

        def forward(self, *args):
            return self.call(self.net, *args)
    return Calls


def outcome(torch, case):
    """What a trace does for other sizes: follows, differs or raises; with `warns` where tracing warned, or `refused`."""
    nn, F = torch.nn, torch.nn.functional
    left, right = case.rsplit(" | ", 1)
    names = {"torch": torch, "nn": nn, "F": F, "r": torch.randn, "ids": lambda limit, *s: torch.randint(limit, s),
             **vars(nn), "Calls": _calls(nn), "__name__": "cases"}
    torch.manual_seed(0)
    fn = eval(left, names)
    if isinstance(fn, nn.Module) and ".train()" not in left:
        fn.eval()
    one, two = (eval(right, {**names, "n": n, "l": l}) for n, l in (N_, L_))
    one, two = (x if isinstance(x, tuple) else (x,) for x in (one, two))
    numbers = [x for x in one if not isinstance(x, torch.Tensor)]
    if numbers:
        given = fn

        def call(net, *tensors):
            tensors = iter(tensors)
            return net(*(next(tensors) if isinstance(x, torch.Tensor) else x for x in one))
        if isinstance(given, nn.Module):
            fn = names["Calls"](call, given).eval()
        else:
            def fn(*tensors):
                return call(given, *tensors)
    tensors = [tuple(x for x in xs if isinstance(x, torch.Tensor)) for xs in (one, two)]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            traced = torch.jit.trace(fn, tensors[0], check_trace=False)
        except Exception as error:
            return "refused: " + str(error).strip().splitlines()[-1][:120]
    warned = " warns" if any(issubclass(w.category, torch.jit.TracerWarning) for w in seen) else ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(1)
        want = fn(*tensors[1])
        torch.manual_seed(1)
        try:
            got = traced(*tensors[1])
        except Exception:
            return "raises" + warned
    return ("follows" if _same(torch, want, got) else "differs") + warned


def outcomes(torch):
    made = {}
    for case in cases():
        try:
            made[case] = outcome(torch, case)
        except Exception as error:
            made[case] = "broken: " + repr(error)[:200]
    return made


if __name__ == "__main__":
    import torch
    print(json.dumps(outcomes(torch), indent=0))
